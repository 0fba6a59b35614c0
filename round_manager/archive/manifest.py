"""The manifest of an archive: the hash, size and rows of every file, and the terms of the round."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from round_manager.errors import ArchiveCorrupt, ArchiveNotFound, ArchiveUnsupported

FILE = "manifest.json"
FORMAT = 1
MOST_BYTES = 1 << 24
REPAIR = "restore the archive from a copy, or freeze the round again"


@dataclass(frozen=True)
class FileEntry:
    """One file: its hash, its size and its number of rows."""

    sha256: str
    size: int
    rows: int


@dataclass(frozen=True)
class ArchiveManifest:
    """The manifest; times are ISO 8601 in UTC."""

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
    # The versions of Outfox and of the library that wrote the Parquet files: others may write other bytes.
    written_by: Mapping[str, str]
    files: Mapping[str, FileEntry]
    format: int = FORMAT

    def written(self) -> bytes:
        """Return the content of the file; equal archives have equal manifests."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @property
    def sha256(self) -> str:
        """The hash that identifies the whole archive."""
        return hashlib.sha256(self.written()).hexdigest()

    @classmethod
    def read(cls, content: bytes, where: str) -> Self:
        """Parse a manifest; raise ArchiveCorrupt or ArchiveUnsupported if that is not possible."""
        try:
            data = json.loads(content)
            data["files"] = {str(name): FileEntry(**entry) for name, entry in data["files"].items()}
            found = cls(**data)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ArchiveCorrupt(f"{where} is not a valid manifest; {REPAIR}") from error
        if found.format != FORMAT:
            raise ArchiveUnsupported(
                f"{where} has format {found.format}, but this version reads {FORMAT}; use a newer version of Outfox"
            )
        if any("/" in name or name.startswith(".") for name in found.files):
            raise ArchiveCorrupt(f"{where} names files outside its folder; {REPAIR}")
        if found.written() != content:
            raise ArchiveCorrupt(f"{where} was changed; {REPAIR}")
        return found


def read_manifest(folder: Path) -> ArchiveManifest:
    """Return the manifest of the archive in a folder."""
    try:
        content = (folder / FILE).read_bytes()
    except OSError as error:
        if any(folder.glob("*.parquet")):
            raise ArchiveCorrupt(f"the manifest of {folder} is missing; {REPAIR}") from error
        raise ArchiveNotFound(f"there is no archive at {folder}") from error
    return ArchiveManifest.read(content, str(folder / FILE))
