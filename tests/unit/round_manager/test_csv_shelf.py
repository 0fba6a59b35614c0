"""Tables as CSV that a spreadsheet opens without running anything."""

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
from round_manager.archive.csv_shelf import CsvShelf, write_csv
from round_manager.archive.manifest import ArchiveManifest, FileEntry
from round_manager.errors import ArchiveError

WIDE = chr(0xFF1D)  # an equals sign, in some spreadsheets
RISKY = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", f"{WIDE}1", "'=1", "'"]
HARMLESS = ["good", "a=b", "5 - 3", '"quoted", with commas', "two\nlines", "", "🙂"]


def cells(folder: Path, column: pa.Array) -> list[str]:
    """What a CSV reader finds in a table of one column."""
    parquet.write_table(pa.table({"text": column, "number": range(len(column))}), folder / "one.parquet")
    write_csv(folder / "one.parquet", folder / "one.csv")
    with (folder / "one.csv").open(encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


def test_what_a_spreadsheet_would_run_is_marked_as_text_and_can_be_had_back(tmp_path: Path) -> None:
    found = cells(tmp_path, pa.array(RISKY + HARMLESS))
    assert found == [f"'{text}" for text in RISKY] + HARMLESS
    assert [text.removeprefix("'") for text in found] == RISKY + HARMLESS


def test_numbers_are_numbers_and_lists_and_times_are_as_in_json(tmp_path: Path) -> None:
    assert cells(tmp_path, pa.array([-5, 7])) == ["-5", "7"]
    (tmp_path / "one.csv").unlink()
    votes = pa.array([[{"worker": "a", "label": '"x"'}], []])
    assert cells(tmp_path, votes) == ['[{"worker":"a","label":"\\"x\\""}]', "[]"]
    (tmp_path / "one.csv").unlink()
    times = pa.array([datetime(2027, 3, 1, 12, tzinfo=UTC), None], pa.timestamp("us", tz="UTC"))
    assert cells(tmp_path, times) == ["2027-03-01T12:00:00.000000Z", ""]


class OneFile:
    """An archive that counts how often its file is wanted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wanted = 0

    def manifest(self) -> ArchiveManifest:
        raise AssertionError("nobody asks")

    def pieces(self, name: str, entry: FileEntry, start: int, stop: int) -> Iterator[bytes]:
        raise AssertionError("nobody asks")

    @contextmanager
    def local(self, name: str, entry: FileEntry) -> Iterator[Path]:
        self.wanted += 1
        yield self.path


@pytest.fixture
def one_file(tmp_path: Path) -> OneFile:
    path = tmp_path / "votes.parquet"
    parquet.write_table(pa.table({"text": ["good"] * 25_000}), path)
    return OneFile(path)


ENTRY = FileEntry("0" * 64, 1, 25_000)


def test_a_file_is_made_once_and_known_by_its_hash(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvShelf(tmp_path / "csv")
    assert shelf.find(ENTRY) is None
    made = shelf.get(one_file, "votes.parquet", ENTRY)
    again = CsvShelf(tmp_path / "csv").get(one_file, "votes.parquet", ENTRY)
    assert (one_file.wanted, again) == (1, made)
    content = made.path.read_bytes()
    assert made.entry == FileEntry(hashlib.sha256(content).hexdigest(), len(content), 25_000)
    assert content == b'"text"\n' + b'"good"\n' * 25_000


SIZE = len(b'"text"\n' + b'"good"\n' * 25_000)


def entry(number: int) -> FileEntry:
    """The hash of another table."""
    return FileEntry(f"{number:064}", 1, 25_000)


def kept(shelf: CsvShelf) -> list[int]:
    return [number for number in range(5) if shelf.find(entry(number))]


def age(shelf: CsvShelf, *numbers: int) -> None:
    """They were asked for long ago, in that order."""
    for place, number in enumerate(numbers, 1):
        found = shelf.find(entry(number))
        assert found is not None
        os.utime(found.path, (place, place))


def test_what_was_asked_for_longest_ago_makes_room(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvShelf(tmp_path / "csv", most_bytes=2 * SIZE)
    for number in (0, 1):
        shelf.get(one_file, "votes.parquet", entry(number))
    age(shelf, 0, 1)
    shelf.get(one_file, "votes.parquet", entry(0))
    shelf.get(one_file, "votes.parquet", entry(2))
    assert kept(shelf) == [0, 2]
    assert len(list((tmp_path / "csv").iterdir())) == 2
    assert b"".join(shelf.pieces(one_file, "votes.parquet", entry(1), 0, 7)) == b'"text"\n'
    assert len(kept(shelf)) == 2


def test_one_that_is_larger_than_the_whole_shelf_is_served_all_the_same(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvShelf(tmp_path / "csv", most_bytes=1)
    shelf.get(one_file, "votes.parquet", entry(0))
    assert len(b"".join(shelf.pieces(one_file, "votes.parquet", entry(1), 0, SIZE))) == SIZE
    assert kept(shelf) == [1]


def test_what_is_being_read_or_written_stays(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvShelf(tmp_path / "csv", most_bytes=SIZE)
    reading = shelf.pieces(one_file, "votes.parquet", entry(0), 0, SIZE)
    draft = tmp_path / "csv" / f"{UNFINISHED}of-another-process"
    draft.mkdir()
    age(shelf, 0)
    # Another process has the same folder.
    CsvShelf(tmp_path / "csv", most_bytes=SIZE).get(one_file, "votes.parquet", entry(1))
    assert (kept(shelf), draft.is_dir()) == ([0, 1], True)
    assert len(b"".join(reading)) == SIZE
    age(shelf, 0, 1)
    shelf.get(one_file, "votes.parquet", entry(2))
    assert kept(shelf) == [2]


def test_one_that_somebody_has_taken_half_away_is_told(one_file: OneFile, tmp_path: Path) -> None:
    shelf = CsvShelf(tmp_path / "csv")
    shelf.get(one_file, "votes.parquet", entry(0)).path.unlink()
    with pytest.raises(ArchiveError, match="remove it"):
        shelf.pieces(one_file, "votes.parquet", entry(0), 0, SIZE)


def test_what_cannot_be_made_leaves_nothing(one_file: OneFile, tmp_path: Path) -> None:
    one_file.path.write_bytes(b"spoiled")
    with pytest.raises(ArchiveError, match="cannot make CSV"):
        CsvShelf(tmp_path / "csv").get(one_file, "votes.parquet", ENTRY)
    assert list((tmp_path / "csv").iterdir()) == []
