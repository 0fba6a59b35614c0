"""Tries that wait on disk until they are taken: one JSON object a line, in files that one process owns."""

import fcntl
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex

from ml_backend.errors import VerdictError
from ml_backend.serving.tried import Tried

_PATTERN = "tries-*.jsonl"
# Far more than one try can take: two fields of 20,000 characters, all of them escaped.
_READ_BYTES = 4_000_000


class SpillFile:
    """A queue of tries in one file, locked for as long as its owner lives; its threads may use it at the same time.

    Nothing is synced: what was written survives the death of the process, and that is what is guarded against.
    A try may be read again after a crash, so that whoever takes them must know a verdict's id when it comes twice.
    """

    def __init__(self, path: Path, most_bytes: int, *, create: bool) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise
        self._lock = threading.Lock()
        self._open = True
        self._done = 0
        self._seen = 0

    @property
    def empty(self) -> bool:
        """Whether nothing waits here that could be had."""
        with self._lock:
            return not self._open or self._size() <= self._done

    def append(self, tries: Sequence[Tried]) -> bool:
        """Adds tries behind the others; false, and nothing added, where they do not fit or the disk refuses."""
        lines = b"".join(json.dumps(one.to_json()).encode("ascii") + b"\n" for one in tries)
        with self._lock:
            if not self._open or (size := self._size()) + len(lines) > self._most_bytes:
                return False
            try:
                written = os.write(self._file, lines)
            except OSError:
                written = 0
            if written < len(lines):
                os.ftruncate(self._file, size)
        return written == len(lines)

    def peek(self, most: int) -> tuple[list[Tried], int]:
        """The next tries, and how many unreadable lines lay between them; `advance` takes them all off."""
        with self._lock:
            if not self._open:
                return [], 0
            # In one moment: another thread may be writing a line.
            read, size = os.pread(self._file, _READ_BYTES, self._done), self._size()
        found: list[Tried] = []
        torn = 0
        self._seen = self._done
        for line in read.splitlines(keepends=True):
            if len(found) == most:
                break
            # A line cut off by the end of what was read comes whole the next time, unless it is all there is.
            if not line.endswith(b"\n") and self._seen > self._done:
                if self._seen + len(line) == size:
                    torn += 1
                    self._seen += len(line)
                break
            self._seen += len(line)
            try:
                found.append(Tried.from_json(json.loads(line)))
            except (ValueError, VerdictError):
                torn += 1
        return found, torn

    def advance(self) -> None:
        """What was peeked at is done with."""
        with self._lock:
            if not self._open:
                return
            self._done = self._seen
            if self._size() <= self._done:
                os.ftruncate(self._file, 0)
                self._done = self._seen = 0

    def lines(self) -> int:
        """How many tries wait here, about: a line that is torn counts too."""
        with self._lock, os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(self._done)
            return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1_000_000), b""))

    def close(self) -> None:
        """The file is removed if nothing waits in it, and left for the next process if something does."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            if self._size() <= self._done:
                self._path.unlink(missing_ok=True)
            os.close(self._file)

    def _size(self) -> int:
        return os.fstat(self._file).st_size


def new_file(folder: Path, most_bytes: int) -> SpillFile:
    """An empty file of this process's own; an OSError where the folder takes none."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        try:
            return SpillFile(folder / f"tries-{os.getpid()}-{token_hex(4)}.jsonl", most_bytes, create=True)
        except BlockingIOError:  # Another process took it for an orphan before it could be locked.
            continue


def orphans(folder: Path, most_bytes: int) -> list[SpillFile]:
    """The files left behind by processes that are no more; they are this process's now."""
    found = []
    for path in sorted(folder.glob(_PATTERN)):
        try:
            found.append(SpillFile(path, most_bytes, create=False))
        except OSError:  # Its owner lives, or another process was faster.
            continue
    return found
