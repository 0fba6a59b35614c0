"""An archive's tables as CSV: converted once from the Parquet file, safe to open in a spreadsheet, cached by its hash.

A text that a spreadsheet would take for a formula gets a `'` in front, and so does one that begins with a `'`: removing
one `'` from the beginning of a text restores it. Lists and objects are JSON.
"""

import fcntl
import json
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from ml_backend.artefact import UNFINISHED, sweep
from outfox.json_lines import json_texts
from outfox.table_files import FileEntry, HashedFile
from round_manager.archive.reader import ArchiveSource, FileVerifier, file_pieces
from round_manager.errors import ArchiveError

# Part of the name of a cached file: another version of the format must not find it.
FORM = 2
TABLE, ENTRY = "table.csv", "entry.json"
BATCH = 10_000
MOST_BYTES = 4 * 2**30
# Full-width signs too: some spreadsheets treat them like the usual ones. Before them any whitespace and invisible
# characters (control and format characters, such as the byte order mark), which some spreadsheets ignore.
FORMULA = r"^(?:[\s\p{Z}\p{Cc}\p{Cf}]*[=+\-@'\x{FF0B}\x{FF0D}\x{FF1D}\x{FF20}]|[\t\r\n])"


@dataclass(frozen=True)
class CsvFile:
    """A table as CSV, on this machine."""

    path: Path
    entry: FileEntry


class CsvCache:
    """CSV files in a folder, at most `most_bytes` in total; the folder may be emptied at any time.

    A new file evicts the least recently used ones that are not being read.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._making = threading.Lock()

    def find(self, source: FileEntry) -> CsvFile | None:
        """Return the cached CSV of a Parquet file, if there is one."""
        place = self._place(source)
        try:
            made = CsvFile(place / TABLE, FileEntry(**json.loads((place / ENTRY).read_bytes())))
        except (OSError, ValueError, TypeError):
            return None
        return made if made.path.is_file() else None

    def get(self, archive: ArchiveSource, name: str, source: FileEntry) -> CsvFile:
        """Return the CSV of an archive's Parquet file; convert it if it is not cached, one file at a time."""
        with self._making:
            found = self.find(source)
            if found is None:
                self._make(archive, name, source)
                found = self.find(source)
                self._trim(self._place(source))
        if found is None:
            raise ArchiveError(f"{self._place(source)} cannot be read; delete it")
        with suppress(OSError):
            os.utime(found.path)
        return found

    def pieces(self, archive: ArchiveSource, name: str, source: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        """Yield bytes of that CSV; it is not evicted while they are read."""
        while True:
            found = self.get(archive, name, source)
            try:
                held = found.path.open("rb")
            except FileNotFoundError:
                continue  # It was just evicted, and is converted again.
            except OSError as error:
                raise ArchiveError(f"cannot read {found.path}: {error.strerror}; delete it") from error
            fcntl.flock(held, fcntl.LOCK_SH)
            try:
                return _held_pieces(held, file_pieces(found.path, found.entry.size, start, stop))
            except ArchiveError:
                held.close()
                if found.path.exists():
                    raise

    def _place(self, source: FileEntry) -> Path:
        return self._folder / f"{source.sha256}-{FORM}"

    def _make(self, archive: ArchiveSource, name: str, source: FileEntry) -> None:
        with self._draft() as draft, archive.local(name, source) as path:
            FileVerifier().check(path, source)
            entry = write_csv(path, draft / TABLE)
            (draft / ENTRY).write_text(json.dumps(asdict(entry)), encoding="ascii")
            place = self._place(source)
            try:
                draft.rename(place)
            except OSError:
                if not place.exists():  # Otherwise another process was faster, with the same bytes.
                    raise

    def _trim(self, newest: Path) -> None:
        """Evict the least recently used files until the rest is small enough."""
        kept = []
        for place in self._folder.glob("[!.]*-*"):  # Of any format version: old ones are never requested again.
            with suppress(OSError):  # Another process evicts files at the same time.
                found = (place / TABLE).stat()
                kept.append((found.st_mtime_ns, found.st_size, place))
        left = sum(size for _, size, _ in kept)
        for _, size, place in sorted(kept):
            if left <= self._most_bytes:
                return
            if place != newest and self._removed(place):
                left -= size

    def _removed(self, place: Path) -> bool:
        """Remove a file that is not being read, and return whether that was possible."""
        gone = self._folder / f"{UNFINISHED}{uuid.uuid4().hex}"
        try:
            with (place / TABLE).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                place.rename(gone)
        except OSError:
            return False
        shutil.rmtree(gone, ignore_errors=True)
        return True

    @contextmanager
    def _draft(self) -> Iterator[Path]:
        draft = self._folder / f"{UNFINISHED}{uuid.uuid4().hex}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            sweep(self._folder)
            draft.mkdir()
            yield draft
        except (OSError, pa.ArrowInvalid) as error:
            raise ArchiveError(
                f"cannot write CSV below {self._folder}: {error}; check the disk space and the permissions"
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _held_pieces(held: BinaryIO, pieces: Iterator[bytes]) -> Iterator[bytes]:
    with held:
        yield from pieces


def write_csv(source: Path, target: Path) -> FileEntry:
    """Convert a Parquet file to CSV in batches, and return its entry."""
    out, rows = HashedFile(target), 0
    try:
        with parquet.ParquetFile(source) as file:
            schema = csv_cells(file.schema_arrow.empty_table()).schema
            with csv.CSVWriter(pa.PythonFile(out, mode="w"), schema) as writer:
                for batch in file.iter_batches(batch_size=BATCH):
                    writer.write_table(csv_cells(pa.Table.from_batches([batch])))
                    rows += batch.num_rows
    finally:
        out.close()
    return out.entry(rows)


def csv_cells(table: pa.Table) -> pa.Table:
    """Return the table with values that a CSV file can hold."""
    columns = [_cells(column.combine_chunks()) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _cells(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_timestamp(kind):
        return json_texts(column)
    if pa.types.is_string(kind):
        return pc.if_else(
            pc.match_substring_regex(column, FORMULA), pc.binary_join_element_wise("'", column, ""), column
        )
    return column
