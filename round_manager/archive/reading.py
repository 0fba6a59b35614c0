"""Reading archives where they are, in a folder or in S3: the manifest, and any bytes of a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Protocol

from round_manager.archive.archives import S3, answered
from round_manager.archive.manifest import CURE, FILE, MOST_BYTES, ArchiveManifest, FileEntry, read_manifest
from round_manager.errors import ArchiveError

PIECE = 1 << 16


class ArchiveSource(Protocol):
    """One archive, to be read."""

    def manifest(self) -> ArchiveManifest:
        """What is in it."""
        ...

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        """A file's bytes from `start` up to `stop`, a few at a time; what is missing or changed is told at once."""
        ...

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        """The file on this machine's disk."""
        ...


def open_source(uri: str) -> ArchiveSource:
    """The archive at a path or at s3://bucket/prefix."""
    return BucketSource(uri) if uri.startswith(S3) else FolderSource(Path(uri))


class FolderSource:
    """An archive in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def manifest(self) -> ArchiveManifest:
        return read_manifest(self._folder)

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        return file_pieces(self._folder / name, entry.size, start, stop)

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        yield self._folder / name


class BucketSource:
    """An archive in an S3 bucket; its bytes pass through, so that whoever reads needs no rights there."""

    def __init__(self, url: str) -> None:
        # boto3 takes a second to import.
        from ml_backend.registry.bucket import Bucket

        with answered():
            self._bucket = Bucket.open(url)

    def manifest(self) -> ArchiveManifest:
        where = self._bucket.where(FILE)
        with answered():
            read = self._bucket.read(FILE, MOST_BYTES)
        if read is None:
            raise ArchiveError(f"{where} is missing; {CURE}")
        return ArchiveManifest.read(read[0], where)

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        with answered():
            return self._bucket.pieces(name, start, stop, entry.sha256)

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        with TemporaryDirectory(prefix="outfox-archive-") as folder:
            with answered():
                self._bucket.download(name, Path(folder) / name, entry.size)
            yield Path(folder) / name


def file_pieces(path: Path, size: int, start: int, stop: int) -> Iterator[bytes]:
    """The same bytes of a file on this machine, which must be as large as it should be."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror}; {CURE}") from error
    if os.fstat(file.fileno()).st_size != size:
        file.close()
        raise ArchiveError(f"{path} was changed (its size differs); {CURE}")
    return _read(file, start, stop)


def _read(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        left = stop - start
        while left > 0 and (piece := file.read(min(left, PIECE))):
            left -= len(piece)
            yield piece
