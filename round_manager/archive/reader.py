"""Reading archives in place, in a folder or in S3: the manifest, byte ranges of files, and tables in batches."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Protocol

import pyarrow as pa
from pyarrow import parquet

from outfox.table_files import FileEntry
from round_manager.archive.files import FILE, MOST_BYTES, REPAIR, ArchiveManifest, read_manifest
from round_manager.archive.storage import S3, bucket_errors
from round_manager.errors import ArchiveError, ArchiveFileChanged, ArchiveNotFound

PIECE = 1 << 16


class ArchiveSource(Protocol):
    """One archive to read."""

    def manifest(self) -> ArchiveManifest:
        """Return its manifest."""

    def small(self, name: str) -> bytes | None:
        """Return the content of a small file that the manifest does not name; None if there is none."""

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        """Yield a file's bytes from `start` up to `stop`; raise at once if the file is missing or changed."""

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        """Yield the path of the file on this machine."""


def open_source(uri: str) -> ArchiveSource:
    """Return the archive at a path or at s3://bucket/prefix."""
    return BucketSource(uri) if uri.startswith(S3) else FolderSource(Path(uri))


class FolderSource:
    """An archive in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def manifest(self) -> ArchiveManifest:
        return read_manifest(self._folder)

    def small(self, name: str) -> bytes | None:
        path = self._folder / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ArchiveError(f"cannot read {path}: {error.strerror}; {REPAIR}") from error

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        return file_pieces(self._folder / name, entry.size, start, stop)

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        yield self._folder / name


class BucketSource:
    """An archive in an S3 bucket; clients need no access to the bucket, because its bytes pass through."""

    def __init__(self, url: str) -> None:
        # boto3 takes a second to import.
        from ml_backend.registry.bucket import Bucket

        with bucket_errors():
            self._bucket = Bucket.open(url)

    def manifest(self) -> ArchiveManifest:
        where = self._bucket.where(FILE)
        with bucket_errors():
            read = self._bucket.read(FILE, MOST_BYTES)
        if read is None:
            raise ArchiveNotFound(f"{where} is missing; {REPAIR}")
        return ArchiveManifest.read(read[0], where)

    def small(self, name: str) -> bytes | None:
        with bucket_errors():
            read = self._bucket.read(name, MOST_BYTES)
        return read[0] if read else None

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        with bucket_errors():
            return self._bucket.pieces(name, start, stop, entry.sha256)

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        with TemporaryDirectory(prefix="outfox-archive-") as folder:
            with bucket_errors():
                self._bucket.download(name, Path(folder) / name, entry.size)
            yield Path(folder) / name


def file_pieces(path: Path, size: int, start: int, stop: int) -> Iterator[bytes]:
    """Yield bytes of a file on this machine; raise if its size is not the expected one."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror}; {REPAIR}") from error
    if os.fstat(file.fileno()).st_size != size:
        file.close()
        raise ArchiveFileChanged(f"{path} has changed (its size differs); {REPAIR}")
    return _read(file, start, stop)


def _read(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        left = stop - start
        while left > 0 and (piece := file.read(min(left, PIECE))):
            left -= len(piece)
            yield piece


# Modification time, change time and size.
Stamp = tuple[int, int, int]


def file_digest(file: BufferedReader) -> str:
    """Return the hash of an open file."""
    return hashlib.file_digest(file, "sha256").hexdigest()


class FileVerifier:
    """Compares files with their hashes; a file is hashed again only after it was modified."""

    def __init__(self, sha256: Callable[[BufferedReader], str] = file_digest) -> None:
        self._sha256 = sha256
        self._known: dict[Path, tuple[Stamp, str]] = {}
        self._reading: dict[Path, threading.Lock] = {}

    def check(self, path: Path, entry: FileEntry) -> None:
        """Raise ArchiveFileChanged unless the file is the one that the entry describes; each file is hashed once."""
        try:
            # One lock per file: checks of other files need not wait.
            with self._reading.setdefault(path, threading.Lock()), path.open("rb") as file:
                found = os.fstat(file.fileno())
                right = found.st_size == entry.size and self._found(path, file, found) == entry.sha256
        except OSError as error:
            raise ArchiveError(f"cannot read {path}: {error.strerror}; {REPAIR}") from error
        if not right:
            raise ArchiveFileChanged(f"{path} is not what was frozen (its size or SHA-256 differs); {REPAIR}")

    def _found(self, path: Path, file: BufferedReader, found: os.stat_result) -> str:
        # Taken before the file is read: a later write gets another stamp.
        stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = (stamp, self._sha256(file))
        return known[1]


BATCH = 10_000


def table_batches(folder: Path, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield a table's rows in their order."""
    with parquet.ParquetFile(folder / f"{table}.parquet") as file:
        yield from file.iter_batches(batch_size=BATCH, columns=None if columns is None else list(columns))


class TableCursor:
    """Reads a table's rows in portions whose sizes another table determines."""

    def __init__(self, folder: Path, table: str, schema: pa.Schema) -> None:
        self._batches = table_batches(folder, table, schema.names)
        self._rest = pa.table(schema.empty_table())

    def take(self, count: int) -> pa.Table:
        """Return the next rows; fewer at the end of the table."""
        while self._rest.num_rows < count and (batch := next(self._batches, None)) is not None:
            self._rest = pa.concat_tables([self._rest, pa.Table.from_batches([batch])])
        taken, self._rest = self._rest.slice(0, count), self._rest.slice(count)
        return taken
