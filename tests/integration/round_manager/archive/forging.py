"""Forged archives: changed, with every hash recomputed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ml_backend.hashing import file_sha256
from outfox.json_lines import json_lines
from outfox.table_files import FileEntry
from round_manager.archive.files import FILE, ArchiveManifest


def forge(archive: Path, change: Callable[[pa.Table], pa.Table], table: str = "examples") -> None:
    """Change a table in both formats and update its hashes in the manifest."""
    changed = change(parquet.read_table(archive / f"{table}.parquet"))
    parquet.write_table(changed, archive / f"{table}.parquet")
    (archive / f"{table}.jsonl").write_bytes(b"".join(json_lines(batch) for batch in changed.to_batches()))

    def tell(told: dict[str, Any]) -> None:
        for name in (f"{table}.parquet", f"{table}.jsonl"):
            entry = FileEntry(file_sha256(archive / name), (archive / name).stat().st_size, changed.num_rows)
            told["files"][name] = vars(entry)

    change_manifest(archive, tell)


def change_manifest(archive: Path, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Change the manifest and write it with a correct hash; return the new manifest."""
    told: dict[str, Any] = json.loads((archive / FILE).read_bytes())
    change(told)
    files = {name: FileEntry(**entry) for name, entry in told["files"].items()}
    (archive / FILE).write_bytes(ArchiveManifest(**{**told, "files": files}).written())
    return told


def set_column(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    """Return the table with other values in a column."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
