import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ml_backend.errors import ModelError, RegistryNotWritable, RegistryUnreachable
from ml_backend.registry.local import LocalRegistry, install_folder, replace_file
from tests.fakes.registry import TASK, corrupt, make_version


@pytest.fixture
def version(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / TASK / make_version(tmp_path / "elsewhere")


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


def test_a_published_version_is_identical(tmp_path: Path, version: Path) -> None:
    registry = LocalRegistry(tmp_path / "models")
    assert registry.publish(version) == version.name
    there = registry.fetch(TASK, version.name)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: path.read_bytes() for path in version.iterdir()
    }
    assert registry.publish(version) == registry.publish(there) == version.name, "again, and from where it lies"


@pytest.mark.parametrize("after", range(6))
def test_a_disk_that_is_full_while_publishing_leaves_nothing_behind(
    tmp_path: Path, version: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    copied: list[Any] = []
    copy = shutil.copyfile

    def full(source: Path, target: Path) -> Path:
        if len(copied) == after:
            target.write_bytes(source.read_bytes()[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        copied.append(target)
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", full)
    registry = LocalRegistry(tmp_path / "models")
    if after == len(list(version.iterdir())):
        registry.publish(version)
        return
    with pytest.raises(RegistryNotWritable, match="No space left on device"):
        registry.publish(version)
    assert everything_below(tmp_path / "models") == [TASK]
    assert registry.versions(TASK) == []
    monkeypatch.undo()
    assert registry.publish(version) == version.name, "and once there is room it works"


def test_a_disk_that_is_full_while_pinning_leaves_the_old_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = LocalRegistry(tmp_path)
    one, two = make_version(tmp_path, "positive"), make_version(tmp_path, "negative")
    pins = registry.set_pins(TASK, [one])

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RegistryUnreachable, match="No space left"):
        registry.set_pins(TASK, [two])
    assert registry.pins(TASK) == pins
    assert not list((tmp_path / TASK).glob(".pins.json.*"))


def test_a_corrupt_version_is_not_published(tmp_path: Path, version: Path) -> None:
    corrupt(version)
    with pytest.raises(ModelError, match="SHA-256"):
        LocalRegistry(tmp_path / "models").publish(version)
    assert everything_below(tmp_path / "models") == []


def test_a_version_corrupted_in_transit_is_not_installed(tmp_path: Path, version: Path) -> None:
    def fill(draft: Path) -> None:
        shutil.copytree(version, draft, dirs_exist_ok=True)
        corrupt(draft)

    with pytest.raises(ModelError):
        install_folder(tmp_path / "models" / version.name, fill)
    assert everything_below(tmp_path / "models") == []


def test_of_two_concurrent_installs_the_first_stays(tmp_path: Path, version: Path) -> None:
    target = tmp_path / "models" / version.name

    def fill(draft: Path) -> None:
        shutil.copytree(version, draft, dirs_exist_ok=True)
        if not target.exists():
            shutil.copytree(version, target)

    assert install_folder(target, fill) == target
    assert [path.name for path in target.parent.iterdir()] == [version.name]


def test_drafts_of_a_killed_writer_are_removed_a_day_later(tmp_path: Path, version: Path) -> None:
    parent = tmp_path / "models" / TASK
    for name, seconds in ((".writing-old", 0), (".writing-new", None)):
        (parent / name).mkdir(parents=True)
        if seconds is not None:
            os.utime(parent / name, (seconds, seconds))
    LocalRegistry(tmp_path / "models").publish(version)
    assert sorted(path.name for path in parent.iterdir()) == [".writing-new", version.name]


def test_two_quick_changes_get_different_modification_times(tmp_path: Path) -> None:
    seen = set()
    for number in range(200):
        replace_file(tmp_path / "file", b"%3d" % number, durable=False)
        found = (tmp_path / "file").stat()
        seen.add((found.st_ino, found.st_mtime_ns, found.st_size))
    assert len(seen) == 200
