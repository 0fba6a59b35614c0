"""The locks: the packages and versions that the tests ran with, and what differs on this machine.

`make lock` writes them. PyTorch is not in them, because processors need different builds of it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import canonicalize_name

LOCKS = Path(__file__).resolve().parent / "locks"
ENTRY = re.compile(
    r"(?m)^(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>\S+)(?: ; (?P<marker>[^\\\n]+?))? *(?P<hashes>(?:\\\n[^\\\n]*)*)$"
)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class LockedPackage:
    """A package at one version, with the hashes of its files; `marker` says on which machines."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def applies_here(self) -> bool:
        """Whether this machine installs it."""
        return not self.marker or Marker(self.marker).evaluate()


@dataclass(frozen=True)
class LockDifference:
    """A package that is installed at another version than the locked one."""

    name: str
    installed: str
    locked: str


def read_lock(path: Path) -> list[LockedPackage]:
    """Return the packages of one lock."""
    return [
        LockedPackage(
            canonicalize_name(found["name"]),
            found["version"],
            found["marker"] or "",
            tuple(HASH.findall(found["hashes"])),
        )
        for found in ENTRY.finditer(path.read_text(encoding="utf-8"))
    ]


def locked_packages() -> list[LockedPackage]:
    """Return the packages of all locks."""
    return [package for path in sorted(LOCKS.glob("*.txt")) for package in read_lock(path)]


def lock_differences(packages: list[LockedPackage]) -> Iterator[LockDifference]:
    """Return the installed packages whose version is not the locked one; extras need not be installed."""
    for package in packages:
        try:
            installed = version(package.name)
        except PackageNotFoundError:
            continue
        if package.applies_here and installed != package.version:
            yield LockDifference(package.name, installed, package.version)
