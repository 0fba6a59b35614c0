"""Files on this machine that are, to the byte, what a manifest says of them."""

import hashlib
import os
import threading
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

from round_manager.archive.manifest import FileEntry
from round_manager.errors import ArchiveError

CURE = "restore the archive, or freeze the round again"
# When it was written, when anything about it was changed last, and its size.
Stamp = tuple[int, int, int]


class ChangedFile(ArchiveError):
    """A file that is not what was frozen."""

    code = "changed_file"


def read_sha256(file: BufferedReader) -> str:
    """The hash of an open file, read a little at a time."""
    return hashlib.file_digest(file, "sha256").hexdigest()


class ProvedFiles:
    """Compares files with their hashes: each once, for as long as nobody touches it."""

    def __init__(self, sha256: Callable[[BufferedReader], str] = read_sha256) -> None:
        self._sha256 = sha256
        self._known: dict[Path, tuple[Stamp, str]] = {}
        self._reading: dict[Path, threading.Lock] = {}

    def check(self, path: Path, entry: FileEntry) -> None:
        """ChangedFile where it is another file than the entry's; a large one takes a second for each GB, once."""
        try:
            # Those who want another file need not wait.
            with self._reading.setdefault(path, threading.Lock()), path.open("rb") as file:
                found = os.fstat(file.fileno())
                right = found.st_size == entry.size and self._found(path, file, found) == entry.sha256
        except OSError as error:
            raise ArchiveError(f"cannot read {path}: {error.strerror}; {CURE}") from error
        if not right:
            raise ChangedFile(f"{path} is not what was frozen (its size or SHA-256 differs); {CURE}")

    def _found(self, path: Path, file: BufferedReader, found: os.stat_result) -> str:
        # Taken before the file is read: whatever is written meanwhile has another stamp.
        stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = (stamp, self._sha256(file))
        return known[1]
