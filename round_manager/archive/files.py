"""The manifest of an archive: what it has, and how it is read from a folder."""

import json
from pathlib import Path
from typing import Self

from outfox.manifests import FORMAT, RoundManifest
from outfox.table_files import FileEntry
from round_manager.errors import ArchiveCorrupt, ArchiveNotFound, ArchiveUnsupported

FILE = "manifest.json"
MOST_BYTES = 1 << 24
REPAIR = "restore the archive from a copy, or freeze the round again"


class ArchiveManifest(RoundManifest):
    """A manifest that can be read, with errors that say what to do."""

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
