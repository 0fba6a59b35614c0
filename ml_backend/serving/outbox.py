"""The outbox: tries that wait on disk until the courier takes them, one JSON object a line.

A process writes to a file of its own, which it holds locked, and seals it when the courier may have it. A file that is
sealed, or whose owner is no more, holds only what was not delivered yet, for the courier removes what it delivered.
"""

import fcntl
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from ml_backend.errors import VerdictError
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.sink import SinkState

DRAFT, OPEN, SEALED = ".draft", ".open", ".jsonl"
NOTES = "courier.json"
SECONDS_UNTIL_SEALED = 0.5


def _tell_nobody(_what: str, _count: int) -> None:
    """Where nobody counts."""


class Outbox:
    """A Sink that has every try on disk before `put` returns: a process that is killed loses none.

    Nothing is synced: what was written survives the death of the process, and that is what is guarded against. While
    the disk refuses, tries wait in memory, `capacity` of them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        told: Callable[[str, int], None] = _tell_nobody,
        capacity: int = 10_000,
        seal_after: float = SECONDS_UNTIL_SEALED,
    ) -> None:
        self._folder = folder
        self._told = told
        self._capacity = capacity
        self._seal_after = seal_after
        self._lock = threading.Lock()
        self._file: int | None = None
        self._path = folder
        self._unwritten: deque[bytes] = deque()
        self._dropped = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """From now on what is put in is sealed every now and then."""
        self._thread.start()

    def put(self, tried: AttemptRecord) -> None:
        line = json.dumps(tried.to_json()).encode("ascii") + b"\n"
        with self._lock:
            kept = not self._closing.is_set()
            if kept and not (self._flushed() and self._written(line)):
                kept = len(self._unwritten) < self._capacity
                if kept:
                    self._unwritten.append(line)
        if not kept:
            self._drop(1)

    def state(self) -> SinkState:
        told = read_notes(self._folder)
        return SinkState(
            waiting=len(self._unwritten) + sum(1 for _ in waiting_files(self._folder)),
            delivered=told.delivered,
            refused=told.refused,
            dropped=self._dropped,
            error=told.error,
        )

    def seal(self) -> None:
        """What was put in so far is the courier's now."""
        with self._lock:
            self._flushed()
            if self._file is None:
                return
            try:
                self._path.rename(self._path.with_suffix(SEALED))
            except OSError:
                return  # It is found all the same, when this process is no more.
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """Takes nothing more, and leaves what it has to the courier."""
        with self._lock:
            self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self.seal()
        if self._unwritten:
            self._drop(len(self._unwritten))

    def _run(self) -> None:
        while not self._closing.wait(self._seal_after):
            self.seal()

    def _flushed(self) -> bool:
        """Whether nothing waits in memory any more."""
        while self._unwritten and self._written(self._unwritten[0]):
            self._unwritten.popleft()
        return not self._unwritten

    def _written(self, line: bytes) -> bool:
        try:
            if self._file is None:
                self._path, self._file = _new_file(self._folder)
            size = os.fstat(self._file).st_size
            try:
                if os.write(self._file, line) == len(line):
                    return True
            finally:
                # A part of a line must not stay before the next one.
                if os.fstat(self._file).st_size < size + len(line):
                    os.ftruncate(self._file, size)
        except OSError:
            pass
        return False

    def _drop(self, count: int) -> None:
        self._dropped += count
        self._told("dropped", count)


@dataclass
class Notes:
    """What the courier tells whoever looks at the outbox."""

    process: int = 0
    delivered: int = 0
    refused: int = 0
    error: str | None = None


def read_notes(folder: Path) -> Notes:
    """What the courier last told; nothing where it has not begun."""
    try:
        told = json.loads((folder / NOTES).read_bytes())
        return Notes(int(told["process"]), int(told["delivered"]), int(told["refused"]), told["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return Notes()


def write_notes(folder: Path, notes: Notes) -> None:
    """Tells it; an outbox on a full disk goes without."""
    draft = folder / f".{NOTES}.{os.getpid()}"
    try:
        draft.write_text(json.dumps(vars(notes)), encoding="ascii")
        draft.replace(folder / NOTES)
    except OSError:
        draft.unlink(missing_ok=True)


def waiting_files(folder: Path) -> Iterator[Path]:
    """The files that hold tries, the oldest first; one that is open may be its owner's still."""
    found = [path for path in _entries(folder) if path.suffix in (OPEN, SEALED) and path.name.startswith("tries-")]
    yield from sorted(found, key=lambda path: path.name)


def count_tries(folder: Path) -> int:
    """How many tries wait in an outbox; none where there is no such folder."""
    waiting = 0
    for path in waiting_files(folder):
        try:
            with path.open("rb") as file:
                waiting += sum(1 for _ in file)
        except OSError:  # The courier has taken it meanwhile.
            continue
    return waiting


def is_free(path: Path) -> bool:
    """Whether the file is the courier's: sealed, or of a process that is no more."""
    if path.suffix == SEALED:
        return True
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_tries(path: Path) -> tuple[list[AttemptRecord], int]:
    """The tries in a file, and how many lines in it cannot be read: the last one of a process that was killed."""
    tries: list[AttemptRecord] = []
    torn = 0
    with path.open("rb") as file:
        for line in file:
            try:
                tries.append(AttemptRecord.from_json(json.loads(line)))
            except (ValueError, RecursionError, VerdictError):
                torn += 1
    return tries, torn


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _new_file(folder: Path) -> tuple[Path, int]:
    """A file of this process's own, and its descriptor; names sort by the time at which they were made."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"tries-{time.time_ns():020d}-{token_hex(4)}{OPEN}"
    # Locked before the courier can see it: it would take one that is not for a dead process's, and remove it.
    draft = path.with_suffix(DRAFT)
    file = os.open(draft, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(path)
    except OSError:
        os.close(file)
        raise
    return path, file
