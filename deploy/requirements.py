# ruff: noqa: INP001 - a script, run by its path
"""Print the requirements of setup.cfg and of the named extras, so that an image can install them in their own layer.

python deploy/requirements.py setup.cfg label-studio postgres
"""

import sys
from configparser import ConfigParser
from pathlib import Path


def requirements(text: str, extras: list[str]) -> list[str]:
    """Return the requirements in a setup.cfg."""
    config = ConfigParser(interpolation=None)
    config.read_string(text)
    lists = [config["options"]["install_requires"], *(config["options.extras_require"][name] for name in extras)]
    return [line.strip() for one in lists for line in one.splitlines() if line.strip()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2:])) + "\n")
