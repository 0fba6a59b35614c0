"""The outbox: attempts that wait on disk until the forwarder delivers them, one JSON object per line.

A process writes to its own file, which it holds locked, and seals it when the forwarder may read it. A file that
is sealed, or whose owner has ended, holds only undelivered attempts: the forwarder removes what it has delivered.
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
from typing import Protocol

from common.health import DiskUnusable, check_disk
from ml_backend.errors import VerdictError
from ml_backend.serving.attempt_record import AttemptRecord

DRAFT, OPEN, SEALED = ".draft", ".open", ".jsonl"
STATE_FILE = "courier.json"
SEAL_SECONDS = 0.5


def count_nothing(_what: str, _count: int) -> None:
    """Count nothing."""


@dataclass(frozen=True)
class SinkState:
    """The state of a sink: files that wait, what happened to the other attempts, and the current error."""

    waiting: int = 0
    delivered: int = 0
    refused: int = 0
    dropped: int = 0
    error: str | None = None


class AttemptSink(Protocol):
    """Takes attempts to be stored."""

    def put(self, attempt: AttemptRecord) -> None:
        """Take one attempt, without waiting for it to be stored and without raising."""

    def state(self) -> SinkState:
        """Return the state of the sink."""

    def check(self) -> None:
        """Raise a CodedError if attempts cannot be kept."""


class NoSink:
    """An AttemptSink that keeps nothing, for a backend that runs on its own."""

    def put(self, attempt: AttemptRecord) -> None:
        """Discard the attempt."""

    def state(self) -> SinkState:
        return SinkState()

    def check(self) -> None:
        """Do nothing: nothing is kept."""


class Outbox:
    """An AttemptSink that has every attempt on disk before `put` returns: a process that is killed loses none.

    Writes are not synced: they survive the death of the process, not of the machine. While the disk refuses writes, up
    to `capacity` attempts wait in memory.
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_count: Callable[[str, int], None] = count_nothing,
        capacity: int = 10_000,
        seal_after: float = SEAL_SECONDS,
    ) -> None:
        self._folder = folder
        self._on_count = on_count
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
        """Start sealing files at intervals."""
        self._thread.start()

    def put(self, attempt: AttemptRecord) -> None:
        line = json.dumps(attempt.to_json()).encode("ascii") + b"\n"
        with self._lock:
            kept = not self._closing.is_set()
            if kept and not (self._flush() and self._write(line)):
                kept = len(self._unwritten) < self._capacity
                if kept:
                    self._unwritten.append(line)
        if not kept:
            self._drop(1)

    def state(self) -> SinkState:
        forwarder = read_state(self._folder)
        return SinkState(
            waiting=len(self._unwritten) + sum(1 for _ in waiting_files(self._folder)),
            delivered=forwarder.delivered,
            refused=forwarder.refused,
            dropped=self._dropped,
            error=forwarder.error,
        )

    def check(self) -> None:
        if self._unwritten:
            raise DiskUnusable("attempts cannot be written and wait in memory; free some space")
        # Before the first attempt, the folder need not exist.
        check_disk(self._folder if self._folder.is_dir() else self._folder.parent)

    def seal(self) -> None:
        """Hand what was put in so far to the forwarder."""
        with self._lock:
            self._flush()
            if self._file is None:
                return
            try:
                self._path.rename(self._path.with_suffix(SEALED))
            except OSError:
                return  # The forwarder takes it after this process has ended.
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """Stop accepting attempts, and hand the rest to the forwarder."""
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

    def _flush(self) -> bool:
        """Write what waits in memory; return whether nothing is left."""
        while self._unwritten and self._write(self._unwritten[0]):
            self._unwritten.popleft()
        return not self._unwritten

    def _write(self, line: bytes) -> bool:
        try:
            if self._file is None:
                self._path, self._file = _new_file(self._folder)
            size, is_complete = os.fstat(self._file).st_size, False
            try:
                is_complete = os.write(self._file, line) == len(line)
            finally:
                if not is_complete:
                    # Do not leave a partial line before the next one.
                    os.ftruncate(self._file, size)
            return is_complete
        except OSError:
            return False

    def _drop(self, count: int) -> None:
        self._dropped += count
        self._on_count("dropped", count)


@dataclass
class ForwarderState:
    """What the forwarder reports in the outbox's folder."""

    process: int = 0
    delivered: int = 0
    refused: int = 0
    error: str | None = None


def read_state(folder: Path) -> ForwarderState:
    """Return what the forwarder last reported; empty before its first report."""
    try:
        state = json.loads((folder / STATE_FILE).read_bytes())
        return ForwarderState(int(state["process"]), int(state["delivered"]), int(state["refused"]), state["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return ForwarderState()


def write_state(folder: Path, state: ForwarderState) -> None:
    """Report the forwarder's state; skipped if the disk is full."""
    draft = folder / f".{STATE_FILE}.{os.getpid()}"
    try:
        draft.write_text(json.dumps(vars(state)), encoding="ascii")
        draft.replace(folder / STATE_FILE)
    except OSError:
        draft.unlink(missing_ok=True)


def waiting_files(folder: Path) -> Iterator[Path]:
    """Yield the files that hold attempts, oldest first; an open one may still belong to its writer."""
    found = [path for path in _entries(folder) if path.suffix in (OPEN, SEALED) and path.name.startswith("tries-")]
    yield from sorted(found, key=lambda path: path.name)


def count_waiting(folder: Path) -> int:
    """Return how many attempts wait in an outbox; 0 if there is no such folder."""
    waiting = 0
    for path in waiting_files(folder):
        try:
            with path.open("rb") as file:
                waiting += sum(1 for _ in file)
        except OSError:  # The forwarder has removed it in the meantime.
            continue
    return waiting


def is_free(path: Path) -> bool:
    """Return whether the forwarder may take the file: it is sealed, or its writer has ended."""
    if path.suffix == SEALED:
        return True
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_attempts(path: Path) -> tuple[list[AttemptRecord], int]:
    """Return the attempts in a file and the number of unreadable lines, left by a process that was killed."""
    attempts: list[AttemptRecord] = []
    torn = 0
    with path.open("rb") as file:
        for line in file:
            try:
                attempts.append(AttemptRecord.from_json(json.loads(line)))
            except (ValueError, RecursionError, VerdictError):
                torn += 1
    return attempts, torn


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _new_file(folder: Path) -> tuple[Path, int]:
    """Create a file of this process and return its descriptor; names sort by creation time."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"tries-{time.time_ns():020d}-{token_hex(4)}{OPEN}"
    # Locked before the forwarder can see it: an unlocked file would look like a dead process's and be removed.
    draft = path.with_suffix(DRAFT)
    file = os.open(draft, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(path)
    except OSError:
        os.close(file)
        raise
    return path, file
