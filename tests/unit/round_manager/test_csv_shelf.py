"""Tables as CSV that a spreadsheet opens without running anything."""

import csv
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

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


def test_what_cannot_be_made_leaves_nothing(one_file: OneFile, tmp_path: Path) -> None:
    one_file.path.write_bytes(b"spoiled")
    with pytest.raises(ArchiveError, match="cannot make CSV"):
        CsvShelf(tmp_path / "csv").get(one_file, "votes.parquet", ENTRY)
    assert list((tmp_path / "csv").iterdir()) == []
