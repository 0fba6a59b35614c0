"""Downloaded files on this machine, stored under their hash.

Several processes can share a cache. A file appears in it complete or not at all; a cache on a read-only disk can still
be read.
"""

import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from outfox.archives import sha256_of
from outfox.arguments import checked_folder, reason
from outfox.errors import CacheUnusable, InvalidArgument

# Another process may be about to read a file that was used this recently.
SECONDS_IN_USE = 60.0
# An older unfinished download was left behind by a process that died.
SECONDS_OF_A_DOWNLOAD = 24 * 3600.0


class FileCache:
    """Downloaded files, of which the least recently used are deleted when they exceed `limit` bytes."""

    def __init__(self, limit: int) -> None:
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        try:
            self._folder = checked_folder("XDG_CACHE_HOME", home, "~/.cache") / "outfox"
        except InvalidArgument as error:
            raise CacheUnusable(f"{error} (environment variable XDG_CACHE_HOME)") from error
        self._limit = limit

    def get(
        self, sha256: str, suffix: str, size: int | None, download: Callable[[BinaryIO], None], *, verify: bool
    ) -> Path:
        """Return the file with that hash; if it is missing or has another size, or another hash, download it."""
        target = self._folder / f"{sha256}{suffix}"
        try:
            if _is_complete(target, size) and not (verify and not _has_hash(target, sha256)):
                with suppress(OSError):  # The cache may be read-only.
                    os.utime(target)
                return target
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._store(target, download)
        except OSError as error:
            remedy = "free some disk space, or set XDG_CACHE_HOME to a writable folder"
            raise CacheUnusable(f"cannot store {target}{reason(error)}; {remedy}") from error
        with suppress(OSError):  # Another call deletes the rest.
            self._trim(target)
        return target

    def _store(self, target: Path, download: Callable[[BinaryIO], None]) -> None:
        draft = self._folder / f".{uuid.uuid4().hex}"
        draft.touch(exist_ok=False)
        try:
            with draft.open("r+b") as file:
                download(file)
                os.fsync(file.fileno())  # A power failure must not leave an empty file under a valid name.
            draft.replace(target)
        finally:
            with suppress(OSError):  # The first error is the one to report.
                draft.unlink(missing_ok=True)

    def _trim(self, newest: Path) -> None:
        """Delete the least recently used files until the rest fit, except those in use."""
        now, kept = time.time(), []
        for path in self._folder.iterdir():
            with suppress(OSError):  # Another process may have deleted it; some systems keep open files.
                status = path.stat()
                if not path.name.startswith("."):
                    kept.append((status.st_mtime, status.st_size, path))
                elif now - status.st_mtime > SECONDS_OF_A_DOWNLOAD:
                    path.unlink()
        total = sum(size for _, size, _ in kept)
        for used_at, size, path in sorted(kept):
            if total <= self._limit or now - used_at < SECONDS_IN_USE:
                return
            if path != newest:
                with suppress(OSError):
                    path.unlink()
                    total -= size


def _is_complete(file: Path, size: int | None) -> bool:
    return file.is_file() and size in (None, file.stat().st_size)


def _has_hash(path: Path, sha256: str) -> bool:
    with path.open("rb") as file:
        return sha256_of(file) == sha256
