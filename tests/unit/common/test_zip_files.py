"""Zip files of strangers."""

import io
import zipfile

import pytest

from common.zip_files import TOO_LARGE, EntryRefused, ZipLimits, read_zip

LIMITS = ZipLimits(entries=10, file_bytes=1_000, total_bytes=1_000)


class _Counted(io.BytesIO):
    """A file that counts the bytes that were read."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.count += len(found)
        return found


def _zip(names: list[str]) -> _Counted:
    made = _Counted()
    with zipfile.ZipFile(made, "w") as packed:
        for name in names:
            packed.writestr(name, b"content")
    made.count = 0
    return made


def test_the_files_of_a_zip_are_read() -> None:
    names = [f"{number}-{'x' * 200}" for number in range(LIMITS.entries)]
    found = {entry.filename: b"".join(reader.pieces()) for entry, reader in read_zip(_zip(names), "it", LIMITS)}
    assert found == dict.fromkeys(names, b"content")


def test_a_directory_of_many_entries_is_refused_before_it_is_read() -> None:
    made = _zip([str(number) for number in range(20_000)])
    with pytest.raises(EntryRefused) as caught:
        list(read_zip(made, "it", LIMITS))
    assert caught.value.code == TOO_LARGE
    assert made.count < 100_000 < len(made.getvalue())
