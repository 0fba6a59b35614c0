"""A file is compared with its hash once, and again when it has changed."""

import hashlib
from io import BufferedReader
from pathlib import Path

import pytest

from outfox.table_files import FileEntry
from round_manager.archive.reader import FileVerifier, file_digest
from round_manager.errors import ArchiveError, ArchiveFileChanged

CONTENT = b"what was frozen"
ENTRY = FileEntry(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), 1)


class Counted:
    """Reads files, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, file: BufferedReader) -> str:
        self.times += 1
        return file_digest(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "votes.parquet"
    path.write_bytes(CONTENT)
    return path


def test_a_file_is_read_once_whether_it_is_valid_or_not(file: Path) -> None:
    reader = Counted()
    proved = FileVerifier(reader)
    for _ in range(3):
        proved.check(file, ENTRY)
        with pytest.raises(ArchiveFileChanged):
            proved.check(file, FileEntry("0" * 64, len(CONTENT), 1))
    assert reader.times == 1


def test_a_file_that_was_written_to_is_read_again(file: Path) -> None:
    proved = FileVerifier()
    proved.check(file, ENTRY)
    file.write_bytes(CONTENT.upper())
    with pytest.raises(ArchiveFileChanged):
        proved.check(file, ENTRY)
    file.write_bytes(CONTENT)
    proved.check(file, ENTRY)


def test_a_file_of_another_size_is_refused_without_reading_it(file: Path) -> None:
    reader = Counted()
    file.write_bytes(b"short")
    with pytest.raises(ArchiveFileChanged):
        FileVerifier(reader).check(file, ENTRY)
    assert reader.times == 0


def test_a_missing_file_is_an_error(file: Path) -> None:
    file.unlink()
    with pytest.raises(ArchiveError, match="No such file"):
        FileVerifier().check(file, ENTRY)
