"""The files of an archive as they are written: Parquet and JSON lines of the same rows, hashed on the way."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import RawIOBase
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa
from pyarrow import parquet

from round_manager.archive.json_lines import json_lines
from round_manager.archive.manifest import FileEntry

FORMS = ("parquet", "jsonl")
MOST_UNSAVED = 1 << 24
# To ask for the same memory again takes time, and to keep it all takes memory.
BATCHES_TO_KEEP = 4
Stored = TypeVar("Stored")
Made = TypeVar("Made")


class HashedFile:
    """A file that is written once, from its beginning to its end."""

    def __init__(self, path: Path) -> None:
        # Not buffered: what a full disk refused must not be tried again when the file is let go.
        self._file = path.open("xb", buffering=0)
        self._hash = hashlib.sha256()
        self._size = 0
        self._unsaved = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Add to the end; to a file that was let go, nothing."""
        view = memoryview(data).cast("B")
        if not self.closed:
            self._hash.update(view)
            self._size += len(view)
            write_all(self._file, view)
            self._unsaved += len(view)
            # Little by little, beside other work: all at the end would be waited for.
            if self._unsaved >= MOST_UNSAVED:
                self._save()
        return len(view)

    def flush(self) -> None:
        """Nothing is held back."""

    def tell(self) -> int:
        """How much there is."""
        return self._size

    def close(self) -> None:
        """All of it is on the disk."""
        if not self.closed:
            self._save()
            self.abandon()

    def abandon(self) -> None:
        """Let go of the file, whatever is in it."""
        self.closed = True
        self._file.close()

    def entry(self, rows: int) -> FileEntry:
        """What the manifest says of it."""
        return FileEntry(self._hash.hexdigest(), self._size, rows)

    def _save(self) -> None:
        os.fsync(self._file.fileno())
        self._unsaved = 0
        # Nobody reads it soon: the system's copy would push other files out of memory. Not every system can be told.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class TableFiles:
    """One table's two files; while a batch is written, the next one can be made."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema, pool: ThreadPoolExecutor) -> None:
        self._name = name
        self._pool = pool
        self._parquet, self._lines = (HashedFile(folder / f"{name}.{form}") for form in FORMS)
        self._writer = parquet.ParquetWriter(pa.PythonFile(self._parquet, mode="w"), schema, compression="snappy")
        self._rows = 0
        self._batches = 0
        self._under_way: list[Future[None]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds the batch's rows; at most one batch is under way."""
        self._wait()
        self._batches += 1
        if self._batches % BATCHES_TO_KEEP == 0:
            # What these took goes back to the system: threads would keep more of it with each batch.
            pa.default_memory_pool().release_unused()
        self._rows += batch.num_rows
        self._under_way = [self._pool.submit(self._write_parquet, batch), self._pool.submit(self._write_lines, batch)]

    def finish(self) -> dict[str, FileEntry]:
        """Both files are on the disk; what the manifest says of them."""
        self._wait()
        self._writer.close()
        files = (self._parquet, self._lines)
        for file in files:
            file.close()
        return {f"{self._name}.{form}": file.entry(self._rows) for form, file in zip(FORMS, files, strict=True)}

    def abandon(self) -> None:
        """Let go of both files."""
        self._parquet.abandon()
        self._lines.abandon()

    def _wait(self) -> None:
        for one in self._under_way:
            one.result()
        self._under_way = []

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
        """What is made of each, in order; while one is made, the next is read, and what was made is written."""
        under_way: Future[Made] | None = None
        for one in stored:
            following = self._pool.submit(make, one)
            if under_way is not None:
                yield under_way.result()
            under_way = following
        if under_way is not None:
            yield under_way.result()

    def table(self, name: str, schema: pa.Schema) -> TableFiles:
        """A table to write to; finish it, and hand what it says to `add`."""
        table = TableFiles(self._folder, name, schema, self._pool)
        self._tables.append(table)
        return table

    def add(self, *tables: TableFiles) -> None:
        """These tables are complete."""
        for table in tables:
            self.entries.update(table.finish())

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """A whole table."""
        table = self.table(name, schema)
        for batch in batches:
            table.write(batch)
        self.add(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for table in self._tables:
            table.abandon()


def write_all(file: RawIOBase, data: memoryview) -> None:
    """All of it; the system may take a part at a time."""
    while data:
        data = data[file.write(data) or 0 :]
