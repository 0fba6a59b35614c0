"""Whether a process is well, as a container's health check asks; exit code 0 says yes, 1 says no in one line.

    python -m plugin.health http://127.0.0.1:8000/health    a server, by what it says itself
    python -m plugin.health manager                         the manager, by when it last did all that there was to do

It is run again and again: for a server, nothing but the standard library is loaded.
"""

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

MANAGER = "manager"
SECONDS_TO_ANSWER = 4.0
OK = 200
# A pass over many tasks and a slow marketplace takes minutes; trainings run beside it.
LONGEST_PASS = timedelta(minutes=15)


def trouble_of(what: str) -> str:
    """What is wrong with the server at the address, or with the manager; empty where all is well."""
    return _trouble_of_manager() if what == MANAGER else _trouble_of_server(what)


def main(arguments: Sequence[str]) -> int:
    """Looks at one process; tells what is wrong."""
    trouble = trouble_of(arguments[0]) if len(arguments) == 1 else "name one address, or `manager`"
    if trouble:
        sys.stderr.write(f"{trouble}\n")
    return 1 if trouble else 0


def _trouble_of_server(address: str) -> str:
    try:
        parts = urlsplit(address)
        if parts.scheme != "http" or not parts.hostname:
            return f"{address} is no address of a server; write http://host:port/health"
        connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=SECONDS_TO_ANSWER)
        try:
            connection.request("GET", parts.path or "/")
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, ValueError, HTTPException) as error:
        return f"{address} does not answer: {error}"
    return "" if status == OK else f"{address} answers with HTTP {status}"


def _trouble_of_manager() -> str:
    from common.clock import SystemClock
    from plugin.errors import PluginError
    from plugin.settings import load_settings
    from round_manager.database.store import open_store
    from round_manager.errors import RoundManagerError
    from round_manager.loop.manager_record import last_pass

    try:
        with open_store(load_settings(os.environ).database) as store, store.read() as session:
            last = last_pass(session)
    except (PluginError, RoundManagerError) as error:
        return str(error)
    if last is None:
        return "no manager has done anything yet"
    silent = SystemClock().now() - last.ran_at
    return f"no manager has come to an end of its steps since {last.ran_at:%F %T}" if silent > LONGEST_PASS else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
