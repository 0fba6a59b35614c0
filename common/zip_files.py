"""Zip files of strangers: what they declare may be a lie, so names, kinds and sizes are checked as they are read."""

import stat
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, BinaryIO, cast

LINK, PATH, TWICE, TOO_LARGE, UNREADABLE = (
    "link_not_allowed", "path_not_allowed", "file_duplicate", "zip_too_large", "zip_unreadable",
)  # fmt: skip
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_PIECE = 1 << 20
# What the directory of a zip may need for each entry: its header, name and extra fields.
_DIRECTORY_BYTES = 1_024
_UNREADABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)


@dataclass(frozen=True)
class ZipLimits:
    """How many entries a zip may have, and how large each of them and all together may be."""

    entries: int
    file_bytes: int
    total_bytes: int


class EntryRefused(Exception):
    """A zip, or a file of it, that cannot be trusted: the file's name, a code and what is wrong with it."""

    def __init__(self, name: str, code: str, text: str) -> None:
        super().__init__(f"{name} {text}")
        self.name = name
        self.code = code
        self.text = text


@dataclass
class EntryReader:
    """Reads one file of a zip in pieces, and no more than it may have."""

    name: str
    _opened: IO[bytes]
    _limits: ZipLimits
    _total: list[int]

    def pieces(self) -> Iterator[bytes]:
        """Yield the content; raise EntryRefused where it is too large."""
        size = 0
        while piece := self._read():
            size += len(piece)
            self._total[0] += len(piece)
            if size > self._limits.file_bytes or self._total[0] > self._limits.total_bytes:
                raise EntryRefused(self.name, TOO_LARGE, "is too large")
            yield piece

    def _read(self) -> bytes:
        try:
            return self._opened.read(min(_PIECE, self._limits.file_bytes + 1))
        except (*_UNREADABLE, zlib.error) as error:
            raise EntryRefused(self.name, UNREADABLE, "is not readable; the zip file is damaged") from error


class _Bounded:
    """A zip's file, of whose directory no more is read than entries are allowed: `zipfile` reads it as a whole."""

    def __init__(self, file: BinaryIO, name: str, limits: ZipLimits) -> None:
        self._file, self._name, self._limits = file, name, limits
        self.is_opening = True
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if self.is_opening and size > self._limits.entries * _DIRECTORY_BYTES:
            text = f"has too many entries; at most {self._limits.entries:,} are allowed"
            raise EntryRefused(self._name, TOO_LARGE, text)
        return self._file.read(size)


def read_zip(file: BinaryIO, name: str, limits: ZipLimits) -> Iterator[tuple[zipfile.ZipInfo, EntryReader]]:
    """Yield every file of a zip that is not hidden, with what reads it; raise EntryRefused if one is not plain."""
    total = [0]
    try:
        bounded = _Bounded(file, name, limits)
        with zipfile.ZipFile(cast("IO[bytes]", bounded)) as packed:
            bounded.is_opening = False
            entries = packed.infolist()
            if len(entries) > limits.entries:
                text = f"has {len(entries):,} entries; at most {limits.entries:,} are allowed"
                raise EntryRefused(name, TOO_LARGE, text)
            for entry in entries:
                _check_entry(entry)
                if entry.is_dir() or is_hidden(entry.filename):
                    continue
                with packed.open(entry) as opened:
                    yield entry, EntryReader(entry.filename, opened, limits, total)
    except _UNREADABLE as error:
        raise EntryRefused(name, UNREADABLE, "is not a valid zip file") from error


def check_path(name: str, known: Collection[str]) -> None:
    """Raise EntryRefused for a path that leads out of the folder, or is there already, in any case."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
        raise EntryRefused(name, PATH, "leads out of the folder")
    if any(other.casefold() == name.casefold() for other in known):
        raise EntryRefused(name, TWICE, "is there twice")


def is_hidden(name: str) -> bool:
    """Return whether a file is hidden, or was made by macOS; such files are left out."""
    return any((part.startswith(".") and part != "..") or part == "__MACOSX" for part in PurePosixPath(name).parts)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise EntryRefused(entry.filename, LINK, "is a link or a device; only plain files are allowed")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _COMPRESSIONS:
        raise EntryRefused(entry.filename, UNREADABLE, "is encrypted, or compressed in an unusual way")
