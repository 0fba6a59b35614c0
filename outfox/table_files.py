"""The tables of an archive as Parquet and as JSON lines, hashed while they are written."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa
from pyarrow import parquet

from outfox.json_lines import json_lines

FORMS = ("parquet", "jsonl")
MOST_UNSAVED = 1 << 24
# Releasing memory takes time, and keeping all of it takes memory.
BATCHES_TO_KEEP = 4
Stored = TypeVar("Stored")
Made = TypeVar("Made")


@dataclass(frozen=True)
class FileEntry:
    """One file: its hash, its size and its number of rows."""

    sha256: str
    size: int
    rows: int


class HashedFile:
    """A file that is written once, from start to end, and hashed."""

    def __init__(self, path: Path) -> None:
        # Unbuffered: after a failed write to a full disk, closing the file must not write again.
        self._file = path.open("xb", buffering=0)
        self._hash = hashlib.sha256()
        self._size = 0
        self._unsaved = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Append data; ignored after the file was closed."""
        view = memoryview(data).cast("B")
        if not self.closed:
            self._hash.update(view)
            self._size += len(view)
            write_all(self._file, view)
            self._unsaved += len(view)
            # Synced in parts while other work goes on: one sync at the end would take long.
            if self._unsaved >= MOST_UNSAVED:
                self._save()
        return len(view)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._size

    def close(self) -> None:
        """Sync the file to the disk and close it."""
        if not self.closed:
            self._save()
            self.abandon()

    def abandon(self) -> None:
        """Close the file without syncing it."""
        self.closed = True
        self._file.close()

    def entry(self, rows: int) -> FileEntry:
        """Return the manifest's entry for it."""
        return FileEntry(self._hash.hexdigest(), self._size, rows)

    def _save(self) -> None:
        os.fsync(self._file.fileno())
        self._unsaved = 0
        # It is not read soon, so its pages need not stay in the system's cache. Not every system supports this.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class TableFiles:
    """The two files of a table; while a batch is written, the next one can be prepared."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema, pool: ThreadPoolExecutor) -> None:
        self._name = name
        self._pool = pool
        self._parquet, self._lines = (HashedFile(folder / f"{name}.{form}") for form in FORMS)
        self._writer = parquet.ParquetWriter(pa.PythonFile(self._parquet, mode="w"), schema, compression="snappy")
        self._rows = 0
        self._batches = 0
        self._in_progress: list[Future[None]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch in the background; at most one batch is in progress."""
        self._wait()
        self._batches += 1
        if self._batches % BATCHES_TO_KEEP == 0:
            # Return memory to the system: threads would keep more of it with each batch.
            pa.default_memory_pool().release_unused()
        self._rows += batch.num_rows
        self._in_progress = [self._pool.submit(self._write_parquet, batch), self._pool.submit(self._write_lines, batch)]

    def finish(self) -> dict[str, FileEntry]:
        """Sync both files to the disk and return the manifest's entries for them."""
        self._wait()
        self._writer.close()
        files = (self._parquet, self._lines)
        for file in files:
            file.close()
        return {f"{self._name}.{form}": file.entry(self._rows) for form, file in zip(FORMS, files, strict=True)}

    def abandon(self) -> None:
        """Close both files without syncing them."""
        self._parquet.abandon()
        self._lines.abandon()

    def _wait(self) -> None:
        for one in self._in_progress:
            one.result()
        self._in_progress = []

    def _write_parquet(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch, row_group_size=max(1, batch.num_rows))

    def _write_lines(self, batch: pa.RecordBatch) -> None:
        self._lines.write(json_lines(batch))


class ArchiveFiles:
    """All files of an archive but its manifest, below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="archive")
        self._tables: list[TableFiles] = []
        self.entries: dict[str, FileEntry] = {}

    def made(self, make: Callable[[Stored], Made], stored: Iterable[Stored]) -> Iterator[Made]:
        """Yield `make` of each item in order; while one is made, the next one is read and the last one is written."""
        in_progress: Future[Made] | None = None
        for one in stored:
            following = self._pool.submit(make, one)
            if in_progress is not None:
                yield in_progress.result()
            in_progress = following
        if in_progress is not None:
            yield in_progress.result()

    def table(self, name: str, schema: pa.Schema) -> TableFiles:
        """Return a table to write to; pass it to `add` when it is complete."""
        table = TableFiles(self._folder, name, schema, self._pool)
        self._tables.append(table)
        return table

    def add(self, *tables: TableFiles) -> None:
        """Finish complete tables and keep their entries."""
        for table in tables:
            self.entries.update(table.finish())

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Write a whole table."""
        table = self.table(name, schema)
        for batch in batches:
            table.write(batch)
        self.add(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for table in self._tables:
            table.abandon()


def write_all(file: RawIOBase, data: memoryview) -> None:
    """Write all of the data; one system call may write only a part."""
    while data:
        data = data[file.write(data) or 0 :]
