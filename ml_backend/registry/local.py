"""A registry in a folder: the very folder that training writes to.

<task>/<version>/   a model version          <task>/pins.json   what is pinned
.beats/<id>.json    a serving process
"""

import fcntl
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ml_backend import manifest as manifests
from ml_backend.artefact import read_manifest, verify
from ml_backend.errors import ModelError
from ml_backend.registry.arrival import arrive, replace_file
from ml_backend.registry.beats import FOLDER as BEATS
from ml_backend.registry.errors import RegistryError, RegistryUnreachable
from ml_backend.registry.pins import FILE as PINS
from ml_backend.registry.pins import Book, Pins, Reason, check_pins, check_task, check_version
from ml_backend.registry.registry import Beat, Pace

LOCK = ".pins.lock"
SECONDS_FOR_LOCK = 10.0
SECONDS_UNTIL_SWEPT = 3600.0


class LocalRegistry:
    """A registry for the processes of one machine."""

    pace = Pace(poll=0.15, wait=0.03, beat=2.0, lease=10.0)

    def __init__(self, root: Path) -> None:
        self._root = root

    def publish(self, directory: Path) -> str:
        """Copies the version here, unless this is where it lies."""
        manifest = verify(directory)
        target = self._root / manifest.task / manifest.version
        if target.is_dir():
            verify(target)
            return manifest.version

        def fill(draft: Path) -> None:
            for name in (*manifest.files, manifests.FILE):
                shutil.copyfile(directory / name, draft / name)

        arrive(target, fill)
        return manifest.version

    def fetch(self, task: str, version: str) -> Path:
        directory = self._root / check_task(task) / check_version(version)
        if not (directory / manifests.FILE).is_file():
            raise ModelError(f"task {task} has no model version {version}; `outfox model list {task}` shows them")
        manifest = verify(directory)
        if (manifest.task, manifest.version) != (task, version):
            raise ModelError(f"{directory} holds {manifest.version} of {manifest.task}; restore the folder")
        return directory

    def tasks(self) -> list[str]:
        with _told(self._root):
            if not self._root.is_dir():
                return []
            return sorted(path.name for path in self._root.iterdir() if path.is_dir() and not path.name.startswith("."))

    def versions(self, task: str) -> list[str]:
        folder = self._root / check_task(task)
        with _told(folder):
            names = [path.parent.name for path in folder.glob(f"m*/{manifests.FILE}")]
        return sorted(names, key=lambda name: (_made(folder / name), name), reverse=True)

    def pins(self, task: str, round: int | None = None) -> Pins | None:
        return self.book(task).pins(round)

    def set_pins(
        self,
        task: str,
        versions: Sequence[str],
        *,
        round: int | None = None,
        after: int | None = None,
        repeats: int | None = None,
        who: str = "",
        why: str = "",
    ) -> Pins:
        chosen = check_pins(versions, round)
        folder = self._root / check_task(task)
        for version in chosen:
            if not (folder / version / manifests.FILE).is_file():
                raise ModelError(f"task {task} has no model version {version}; `outfox model list {task}` shows them")
        with _told(folder), _locked(folder):
            # Whoever holds the lock is the only writer: other drafts are of writers that were killed.
            for draft in folder.glob(f".{PINS}.*"):
                draft.unlink()
            reason = Reason(who, why, datetime.now(UTC).isoformat(), uuid.uuid4().hex)
            book = self.book(task).changed(chosen, round, after, repeats, reason)
            replace_file(folder / PINS, book.written(), durable=True)
        return Pins(task, round, book.generation, chosen)

    def book(self, task: str) -> Book:
        path = self._root / check_task(task) / PINS
        with _told(path):
            try:
                return Book.read(path.read_bytes(), task, str(path))
            except FileNotFoundError:
                return Book(task=task)

    def stamp(self, task: str) -> str:
        path = self._root / check_task(task) / PINS
        with _told(path):
            try:
                found = path.stat()
            except FileNotFoundError:
                return ""
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    def beat(self, beat: Beat) -> None:
        folder = self._root / BEATS
        with _told(folder):
            # The registry itself is not made here: where it is missing, its disk may only be away.
            folder.mkdir(exist_ok=True)
            replace_file(folder / f"{beat.id}.json", beat.written(), durable=False)

    def beats(self, task: str) -> list[Beat]:
        folder = self._root / BEATS
        found = []
        with _told(folder):
            for path in folder.glob("*"):
                with suppress(FileNotFoundError):
                    beat = self._living(path)
                    if beat and task in beat.tasks:
                        found.append(beat)
        return found

    def leave(self, beat_id: str) -> None:
        folder = self._root / BEATS
        with _told(folder):
            (folder / f"{beat_id}.json").unlink(missing_ok=True)

    def _living(self, path: Path) -> Beat | None:
        """The beat in the file, unless its process is gone; what is long gone is swept away."""
        age = time.time() - path.stat().st_mtime
        beat = None if path.name.startswith(".") else Beat.read(path.read_bytes(), str(path))
        if beat and not beat.is_gone(age):
            return beat
        if age > SECONDS_UNTIL_SWEPT:
            path.unlink(missing_ok=True)
        return None


def _made(directory: Path) -> str:
    try:
        return read_manifest(directory).created_at
    except ModelError:
        return ""


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise RegistryUnreachable(f"there is no {path}; train or publish a model, or check the path") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise RegistryUnreachable(f"cannot use the registry at {path}: {why}; free the disk or its rights") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Nobody else pins for this task meanwhile; the system frees the lock of a process that is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    give_up = time.monotonic() + SECONDS_FOR_LOCK
    with (folder / LOCK).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise RegistryError(f"another process holds {file.name}; end it, then try again") from None
                time.sleep(0.01)
        yield
