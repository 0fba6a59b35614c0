"""Who runs a command, as the audit log and the registry's history name them."""

import getpass
import os
import socket


def operator_name() -> str:
    """The user and the machine, for example `ada@workstation`."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"[:120]
