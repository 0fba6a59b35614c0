"""The archive of a fixed round has the stored bytes."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from round_manager.archive.storage import open_archives
from tests.campaign import start_closed
from tests.integration.databases import SqliteDatabases
from tests.integration.snapshots import snapshot

# Everything that a test run may change without changing the archive: the versions of the software that wrote it.
VERSIONS = "written_by"


@pytest.mark.parametrize("task", ["sentiment", "qa"])
def test_the_archive_of_a_fixed_round_has_the_stored_bytes(
    task: str, sqlite_databases: SqliteDatabases, tmp_path: Path
) -> None:
    with sqlite_databases.opened() as store:
        start_closed(store, task, examples=16).freeze(open_archives(str(tmp_path)))
    folder = tmp_path / task / "round-1"
    found = {"pyarrow": pa.__version__, "files": hashes(folder), "manifest": manifest(folder)}
    contents = {path.name: parquet_content(path) for path in sorted(folder.glob("*.parquet"))}
    if snapshot.UPDATE:
        snapshot.store(f"archive-{task}.json", found)
        snapshot.store(f"archive-{task}-contents.json", contents)
    stored = snapshot.stored(f"archive-{task}.json")
    if stored["pyarrow"] != pa.__version__:
        # Another version of pyarrow writes other bytes for the same rows.
        found, stored = without_parquet_bytes(found), without_parquet_bytes(stored)
    snapshot.assert_same(found, stored, f"archive of {task}")
    snapshot.assert_same(contents, snapshot.stored(f"archive-{task}-contents.json"), f"rows in the archive of {task}")


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file; the versions that wrote it are cut from the manifest."""
    contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    contents["manifest.json"], cut = re.subn(rb'"written_by": ?\{[^}]*\}', b"", contents["manifest.json"])
    assert cut == 1
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest without the values of the versions that wrote it; the names stay."""
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {**found, VERSIONS: sorted(found[VERSIONS])}


def parquet_content(path: Path) -> dict[str, Any]:
    """Return the schema and the rows of a Parquet file as JSON."""
    table = pq.read_table(path)
    rows = json.loads(json.dumps(table.to_pylist(), default=str, ensure_ascii=False))
    return {"schema": {field.name: str(field.type) for field in table.schema}, "rows": rows}


def without_parquet_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what depends on the version of pyarrow: sizes and hashes of Parquet files, also in the manifest."""
    files = {name: value for name, value in found["files"].items() if name.endswith(".jsonl")}
    told = dict(found["manifest"])
    told["files"] = {
        name: {key: value for key, value in entry.items() if key == "rows" or not name.endswith(".parquet")}
        for name, entry in told["files"].items()
    }
    return {"files": files, "manifest": told}
