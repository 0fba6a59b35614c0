"""The locks pin everything that setup.cfg asks for, with hashes and without the name of an index."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from plugin import lock
from plugin.lock import LOCKS, LockDifference, LockedPackage, lock_differences, locked_packages, read_lock

ROOT = Path(__file__).resolve().parents[3]
EXTRAS = ("label-studio", "postgres", "ray", "test")


def requirements(*extras: str) -> set[str]:
    command = [sys.executable, "deploy/requirements.py", "setup.cfg", *extras]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return {str(canonicalize_name(line.partition("[")[0])) for line in printed.split()} - {"torch"}


def test_every_requirement_of_setup_cfg_is_locked_at_the_version_of_the_constraints() -> None:
    versions = {package.name: package.version for package in locked_packages()}
    assert requirements(*EXTRAS) - versions.keys() == set()
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned: dict[str, str] = {
        str(canonicalize_name(name)): version for name, _, version in (line.partition("==") for line in pins) if version
    }
    assert pinned.pop("torch")
    assert requirements(*EXTRAS) - pinned.keys() == set()
    assert {name: versions.get(name) for name in pinned} == pinned


def test_production_needs_one_lock_only() -> None:
    found = {package.name for package in read_lock(LOCKS / "runtime.txt")}
    assert requirements("label-studio", "postgres") - found == set()


def test_every_package_has_hashes_and_no_file_names_an_index() -> None:
    assert all(package.hashes for package in locked_packages())
    for path in LOCKS.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"://|--(extra-)?index|--find-links|\\.(com|org|io|net)\\b", text)
        entries = [line for line in text.splitlines() if line and not line.startswith(("#", "    --hash=sha256:"))]
        assert len(entries) == len(read_lock(path)) > 1


def test_pytorch_and_its_cuda_packages_are_left_out() -> None:
    assert not [one.name for one in locked_packages() if re.match("torch$|triton|nvidia|cuda", one.name)]


def test_a_package_at_another_version_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def package(name: str, version: str, marker: str = "") -> LockedPackage:
        return LockedPackage(name, version, marker, ())

    installed = {"flask": "3.0", "click": "8.5.1"}

    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(lock, "version", version)
    wanted = [
        package("flask", "3.1"),
        package("flask", "2.0", "python_version < '3'"),
        package("click", "8.5.1"),
        package("ray", "2.60"),
    ]
    assert list(lock_differences(wanted)) == [LockDifference("flask", "3.0", "3.1")]
