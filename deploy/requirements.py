# ruff: noqa: INP001 - a script, run by its path
"""Prints what setup.cfg asks for, with the extras that are named, so that an image can install it before the program.

python deploy/requirements.py setup.cfg label-studio postgres
"""

import sys
from configparser import ConfigParser
from pathlib import Path


def requirements(text: str, extras: list[str]) -> list[str]:
    """The requirements in a setup.cfg, one for each line that names one."""
    config = ConfigParser(interpolation=None)
    config.read_string(text)
    lists = [config["options"]["install_requires"], *(config["options.extras_require"][name] for name in extras)]
    return [line.strip() for one in lists for line in one.splitlines() if line.strip()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2:])) + "\n")
