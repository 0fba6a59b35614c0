"""The CSV cache: tables as CSV files that a spreadsheet opens without running formulas."""

import csv
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from ml_backend.artefact import UNFINISHED
from outfox.table_files import FileEntry
from round_manager.archive.csv_cache import CsvCache, write_csv
from round_manager.archive.files import ArchiveManifest
from round_manager.errors import ArchiveError, ArchiveFileChanged

WIDE = chr(0xFF1D)  # an equals sign, in some spreadsheets
# Invisible characters that some spreadsheets ignore: other spaces, line ends, a byte order mark.
UNSEEN = [chr(code) for code in (0xA0, 0x85, 0x0B, 0x2003, 0x200B, 0x200E, 0x2028, 0x2029, 0x2060, 0x3000, 0xFEFF)]
RISKY = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", f"{WIDE}1", "'=1", "'"]
RISKY += [f"{sign}=1" for sign in UNSEEN] + [f" {''.join(UNSEEN)} @1"]
HARMLESS = ["good", "a=b", "5 - 3", '"quoted", with commas', "two\nlines", "", "🙂", *UNSEEN, f"{UNSEEN[0]}good"]


def cells(folder: Path, column: pa.Array) -> list[str]:
    """Return the cells that a CSV reader finds in a table of one column."""
    parquet.write_table(pa.table({"text": column, "number": range(len(column))}), folder / "one.parquet")
    write_csv(folder / "one.parquet", folder / "one.csv")
    with (folder / "one.csv").open(encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


def test_formulas_are_escaped_as_text_and_can_be_restored(tmp_path: Path) -> None:
    found = cells(tmp_path, pa.array(RISKY + HARMLESS))
    assert found == [f"'{text}" for text in RISKY] + HARMLESS
    assert [text.removeprefix("'") for text in found] == RISKY + HARMLESS


def test_numbers_stay_numbers_and_lists_and_times_are_written_as_in_json(tmp_path: Path) -> None:
    assert cells(tmp_path, pa.array([-5, 7])) == ["-5", "7"]
    (tmp_path / "one.csv").unlink()
    votes = pa.array([[{"worker": "a", "label": '"x"'}], []])
    assert cells(tmp_path, votes) == ['[{"worker":"a","label":"\\"x\\""}]', "[]"]
    (tmp_path / "one.csv").unlink()
    times = pa.array([datetime(2027, 3, 1, 12, tzinfo=UTC), None], pa.timestamp("us", tz="UTC"))
    assert cells(tmp_path, times) == ["2027-03-01T12:00:00.000000Z", ""]


class OneFile:
    """An archive that counts how often its file is requested; all numbered tables have the same size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wanted = 0

    def entry(self, number: int) -> FileEntry:
        """Write a table; return its manifest entry."""
        path = self.folder / "draft"
        parquet.write_table(pa.table({"text": [f"goo{number}"] * 25_000}), path)
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        path.rename(self.folder / sha256)
        return FileEntry(sha256, len(content), 25_000)

    def manifest(self) -> ArchiveManifest:
        raise AssertionError("not used by these tests")

    def small(self, name: str) -> bytes | None:
        raise AssertionError("not used by these tests")

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        raise AssertionError("not used by these tests")

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        self.wanted += 1
        yield self.folder / entry.sha256


@pytest.fixture
def one_file(tmp_path: Path) -> OneFile:
    return OneFile(tmp_path)


def test_a_file_is_created_once_and_described_by_its_hash(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvCache(tmp_path / "csv")
    assert shelf.find(one_file.entry(0)) is None
    made = shelf.get(one_file, "votes.parquet", one_file.entry(0))
    again = CsvCache(tmp_path / "csv").get(one_file, "votes.parquet", one_file.entry(0))
    assert (one_file.wanted, again) == (1, made)
    content = made.path.read_bytes()
    assert made.entry == FileEntry(hashlib.sha256(content).hexdigest(), len(content), 25_000)
    assert content == b'"text"\n' + b'"goo0"\n' * 25_000


SIZE = len(b'"text"\n' + b'"goo0"\n' * 25_000)


def kept(one_file: OneFile, shelf: CsvCache) -> list[int]:
    return [number for number in range(5) if shelf.find(one_file.entry(number))]


def age(one_file: OneFile, shelf: CsvCache, *numbers: int) -> None:
    """Set the last use of these files to long ago, in this order."""
    for place, number in enumerate(numbers, 1):
        found = shelf.find(one_file.entry(number))
        assert found is not None
        os.utime(found.path, (place, place))


def test_the_least_recently_used_file_is_removed(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvCache(tmp_path / "csv", most_bytes=2 * SIZE)
    for number in (0, 1):
        shelf.get(one_file, "votes.parquet", one_file.entry(number))
    age(one_file, shelf, 0, 1)
    shelf.get(one_file, "votes.parquet", one_file.entry(0))
    shelf.get(one_file, "votes.parquet", one_file.entry(2))
    assert kept(one_file, shelf) == [0, 2]
    assert len(list((tmp_path / "csv").iterdir())) == 2
    assert b"".join(shelf.pieces(one_file, "votes.parquet", one_file.entry(1), 0, 7)) == b'"text"\n'
    assert len(kept(one_file, shelf)) == 2


def test_a_file_larger_than_the_cache_is_still_served(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvCache(tmp_path / "csv", most_bytes=1)
    shelf.get(one_file, "votes.parquet", one_file.entry(0))
    assert len(b"".join(shelf.pieces(one_file, "votes.parquet", one_file.entry(1), 0, SIZE))) == SIZE
    assert kept(one_file, shelf) == [1]


def test_files_that_are_being_read_or_written_are_kept(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvCache(tmp_path / "csv", most_bytes=SIZE)
    reading = shelf.pieces(one_file, "votes.parquet", one_file.entry(0), 0, SIZE)
    draft = tmp_path / "csv" / f"{UNFINISHED}of-another-process"
    draft.mkdir()
    age(one_file, shelf, 0)
    # Another process uses the same folder.
    CsvCache(tmp_path / "csv", most_bytes=SIZE).get(one_file, "votes.parquet", one_file.entry(1))
    assert (kept(one_file, shelf), draft.is_dir()) == ([0, 1], True)
    assert len(b"".join(reading)) == SIZE
    age(one_file, shelf, 0, 1)
    shelf.get(one_file, "votes.parquet", one_file.entry(2))
    assert kept(one_file, shelf) == [2]


def test_an_incomplete_cache_entry_is_an_error(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvCache(tmp_path / "csv")
    shelf.get(one_file, "votes.parquet", one_file.entry(0)).path.unlink()
    with pytest.raises(ArchiveError):
        shelf.pieces(one_file, "votes.parquet", one_file.entry(0), 0, SIZE)


def test_a_failed_conversion_leaves_no_files(one_file: OneFile, tmp_path: Path) -> None:
    content = b"no table"
    right = FileEntry(hashlib.sha256(content).hexdigest(), len(content), 1)
    (tmp_path / right.sha256).write_bytes(content)
    with pytest.raises(ArchiveError):
        CsvCache(tmp_path / "csv").get(one_file, "votes.parquet", right)
    assert list((tmp_path / "csv").iterdir()) == []


def test_a_changed_table_is_not_converted(one_file: OneFile, tmp_path: Path) -> None:
    good, other = one_file.entry(0), one_file.entry(1)
    (tmp_path / other.sha256).replace(tmp_path / good.sha256)
    with pytest.raises(ArchiveFileChanged):
        CsvCache(tmp_path / "csv").get(one_file, "votes.parquet", good)
    assert list((tmp_path / "csv").iterdir()) == []


def test_files_of_an_earlier_format_are_ignored_and_removed(one_file: OneFile, tmp_path: Path) -> None:
    shelf, made = CsvCache(tmp_path / "csv", most_bytes=SIZE), one_file.entry(0)
    place = shelf.get(one_file, "votes.parquet", made).path.parent
    old = place.rename(place.with_name(f"{made.sha256}-1"))
    assert shelf.find(made) is None
    shelf.get(one_file, "votes.parquet", one_file.entry(1))
    assert not old.exists()
