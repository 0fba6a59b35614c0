"""A registry in a folder: the folder that training writes to.

<task>/<version>/   a model version          <task>/pins.json   the task's pins
.beats/<id>.json    a serving process's heartbeat

Files and folders change atomically: another process sees the old content or the new one, never a part.
"""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ml_backend import errors
from ml_backend import manifest as manifests
from ml_backend.artefact import UNFINISHED, flush, install, read_manifest, verify
from ml_backend.registry.heartbeats import FOLDER as HEARTBEATS
from ml_backend.registry.heartbeats import Heartbeat, Timing
from ml_backend.registry.pins import FILE as PINS
from ml_backend.registry.pins import PinSet, PinStore, check_task, check_version

LOCK = ".pins.lock"
LOCK_TIMEOUT = 10.0
STALE_SECONDS = 3600.0


class LocalRegistry(PinStore):
    """A registry for the processes of one machine."""

    timing = Timing(poll=0.15, wait=0.03, heartbeat=2.0, lease=10.0)

    def __init__(self, root: Path) -> None:
        self._root = root

    def publish(self, directory: Path) -> str:
        """Copy the version here unless it is already here."""
        manifest = verify(directory)
        target = self._root / manifest.task / manifest.version
        if target.is_dir():
            verify(target)
            return manifest.version

        def fill(draft: Path) -> None:
            for name in (*manifest.files, manifests.FILE):
                shutil.copyfile(directory / name, draft / name)

        install_folder(target, fill)
        return manifest.version

    def fetch(self, task: str, version: str) -> Path:
        directory = self._root / check_task(task) / check_version(version)
        if not (directory / manifests.FILE).is_file():
            raise errors.VersionNotFound(task, version)
        manifest = verify(directory)
        if (manifest.task, manifest.version) != (task, version):
            raise errors.VersionCorrupt(f"{directory} holds {manifest.version} of {manifest.task}; restore the folder")
        return directory

    def tasks(self) -> list[str]:
        with _translate_errors(self._root):
            if not self._root.is_dir():
                return []
            return sorted(path.name for path in self._root.iterdir() if path.is_dir() and not path.name.startswith("."))

    def versions(self, task: str) -> list[str]:
        folder = self._root / check_task(task)
        with _translate_errors(folder):
            names = [path.parent.name for path in folder.glob(f"[a-z]*/{manifests.FILE}")]
        return sorted(names, key=lambda name: (_created_at(folder / name), name), reverse=True)

    def has_version(self, task: str, version: str) -> bool:
        return (self._root / task / version / manifests.FILE).is_file()

    def change_pins(self, task: str, change: Callable[[PinSet], PinSet], token: str) -> int:
        folder = self._root / task
        with _translate_errors(folder), _locked(folder):
            # The lock's holder is the only writer: other drafts were left by writers that were killed.
            for draft in folder.glob(f".{PINS}.*"):
                draft.unlink()
            pin_set = change(self.pin_set(task))
            replace_file(folder / PINS, pin_set.written(), durable=True)
        return pin_set.generation

    def pin_set(self, task: str) -> PinSet:
        path = self._root / check_task(task) / PINS
        with _translate_errors(path):
            try:
                return PinSet.read(path.read_bytes(), task, str(path))
            except FileNotFoundError:
                return PinSet(task=task)

    def stamp(self, task: str) -> str:
        path = self._root / check_task(task) / PINS
        with _translate_errors(path):
            try:
                found = path.stat()
            except FileNotFoundError:
                return ""
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        folder = self._root / HEARTBEATS
        with _translate_errors(folder):
            # Do not create the registry itself: if it is missing, its disk may not be mounted.
            folder.mkdir(exist_ok=True)
            replace_file(folder / f"{heartbeat.id}.json", heartbeat.written(), durable=False)

    def heartbeats(self, task: str) -> list[Heartbeat]:
        folder = self._root / HEARTBEATS
        found = []
        with _translate_errors(folder):
            for path in folder.glob("*"):
                with suppress(FileNotFoundError):
                    heartbeat = self._live_heartbeat(path)
                    if heartbeat and task in heartbeat.tasks:
                        found.append(heartbeat)
        return found

    def remove_heartbeat(self, heartbeat_id: str) -> None:
        folder = self._root / HEARTBEATS
        with _translate_errors(folder):
            (folder / f"{heartbeat_id}.json").unlink(missing_ok=True)

    def _live_heartbeat(self, path: Path) -> Heartbeat | None:
        """Return the heartbeat unless its process has ended; remove stale files."""
        age = time.time() - path.stat().st_mtime
        heartbeat = None if path.name.startswith(".") else Heartbeat.read(path.read_bytes(), str(path))
        if heartbeat and not heartbeat.is_gone(age):
            return heartbeat
        if age > STALE_SECONDS:
            path.unlink(missing_ok=True)
        return None


def _created_at(directory: Path) -> str:
    try:
        return read_manifest(directory).created_at
    except errors.ModelError:
        return ""


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise errors.RegistryUnreachable(
            f"{path} does not exist; train or publish a model, or check the path"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise errors.RegistryUnreachable(f"cannot use {path}: {reason}; check free space and permissions") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a task's pins; the system releases it if the process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    give_up = time.monotonic() + LOCK_TIMEOUT
    with (folder / LOCK).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise errors.RegistryBusy(
                        f"another process holds the lock {file.name}; end it, then try again"
                    ) from None
                time.sleep(0.01)
        yield


def install_folder(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make a version's folder: `fill` writes its files, whose hashes are verified before it becomes visible."""

    def fill_and_verify(draft: Path) -> str:
        fill(draft)
        verify(draft)
        return target.name

    try:
        return install(target.parent, fill_and_verify)
    except OSError as error:
        reason = error.strerror or str(error)
        raise errors.RegistryNotWritable(
            f"cannot write {target}: {reason}; check free space and permissions"
        ) from error


def remove_folder(directory: Path) -> None:
    """Remove a folder; it disappears in one step."""
    aside = directory.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    try:
        directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise errors.RegistryNotWritable(
            f"cannot remove the corrupt folder {directory}: {error.strerror}; remove it"
        ) from error


def replace_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Replace a file's content; with `durable`, flush it to disk first."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            # The kernel's clock is coarse: two quick changes could get the same modification time.
            now = time.time_ns()
            os.utime(file.fileno(), ns=(now, now))
            if durable:
                os.fsync(file.fileno())
        draft.replace(path)
        if durable:
            flush(path.parent)
    finally:
        draft.unlink(missing_ok=True)
