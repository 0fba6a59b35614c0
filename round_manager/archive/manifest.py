"""An archive's manifest: what is in it, to the byte, and what it came from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from round_manager.errors import ArchiveCorrupt, ArchiveError

FILE = "manifest.json"
FORMAT = 1
MOST_BYTES = 1 << 24
CURE = "restore the archive from a copy, or freeze the round again"


@dataclass(frozen=True)
class FileEntry:
    """One file: its hash, its size, and how many rows it has."""

    sha256: str
    size: int
    rows: int


@dataclass(frozen=True)
class ArchiveManifest:
    """What an archive says of itself; times are ISO 8601 in UTC."""

    task: str
    round: int
    kind: str
    opened_at: str
    validating_at: str
    closed_at: str
    spec_sha256: str
    # The task as it was when the round opened: fields, labels, validation policy, pay and splits.
    spec: Mapping[str, Any]
    # By rank: version and the SHA-256 of its files.
    models: list[dict[str, Any]]
    examples: Mapping[str, int]
    splits: Mapping[str, Any]
    # Of Outfox and of the library that wrote the Parquet files: others may write other bytes.
    written_by: Mapping[str, str]
    files: Mapping[str, FileEntry]
    format: int = FORMAT

    def written(self) -> bytes:
        """The file's content, the same for the same archive."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @property
    def sha256(self) -> str:
        """The hash that stands for the whole archive."""
        return hashlib.sha256(self.written()).hexdigest()

    @classmethod
    def read(cls, content: bytes, where: str) -> Self:
        """A manifest that some archive has, or an ArchiveError."""
        try:
            told = json.loads(content)
            told["files"] = {str(name): FileEntry(**entry) for name, entry in told["files"].items()}
            found = cls(**told)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ArchiveCorrupt(f"{where} is not a right manifest; {CURE}") from error
        if found.format != FORMAT:
            raise ArchiveError(
                f"{where} is of format {found.format}, this program reads {FORMAT}; use the newer Outfox"
            )
        if any("/" in name or name.startswith(".") for name in found.files):
            raise ArchiveCorrupt(f"{where} names files outside its folder; {CURE}")
        if found.written() != content:
            raise ArchiveCorrupt(f"{where} was changed; {CURE}")
        return found


def read_manifest(folder: Path) -> ArchiveManifest:
    """The manifest of the archive in a folder."""
    try:
        content = (folder / FILE).read_bytes()
    except OSError as error:
        if any(folder.glob("*.parquet")):
            raise ArchiveCorrupt(f"{folder} has lost its manifest; {CURE}") from error
        raise ArchiveError(f"there is no archive at {folder}; `outfox round freeze` makes one") from error
    return ArchiveManifest.read(content, str(folder / FILE))
