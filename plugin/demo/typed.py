"""Programs and files as they can be typed in the folder where a command was started."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def typed_program(name: str) -> str:
    """A program of this environment: by its name where the PATH leads to it, else by its path."""
    mine = Path(sys.executable).with_name(name)
    if not mine.exists():
        return name
    found = shutil.which(name)
    if found and Path(found).absolute() == mine.absolute():
        return name
    typed = typed_path(mine)
    # A shell looks for a bare name on the PATH only.
    return typed if "/" in typed else f"./{typed}"


def typed_path(path: Path) -> str:
    """The path, from here where that is shorter."""
    return shlex.quote(min(str(path), os.path.relpath(path), key=len))
