"""SHA-256 hashes of files, JSON values and rows, as manifests store them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from templates.rows import SeedRow
from templates.spec import TaskSpec


def file_sha256(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> str:
    """Return the canonical form of a value: sorted keys, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def json_sha256(value: Any) -> str:
    """Return the hash of a value, independent of the order of its keys."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def row_content(row: SeedRow, spec: TaskSpec) -> str:
    """Return what the model reads of a row, and the right answer, as one line of canonical JSON."""
    fields = {name: row.fields[name] for name in spec.model_input}
    answer = {"label": row.label, "answer": row.answer, "answer_start": row.answer_start}
    return canonical_json({"fields": fields, **answer})


def rows_in_order(rows: Sequence[SeedRow], spec: TaskSpec) -> list[SeedRow]:
    """Return the rows sorted by their content, independent of the order in their file."""
    return sorted(rows, key=lambda row: row_content(row, spec))


def rows_sha256(rows: Sequence[SeedRow], spec: TaskSpec) -> str:
    """Return the hash of the rows, independent of their order."""
    digest = hashlib.sha256()
    for content in sorted(row_content(row, spec) for row in rows):
        digest.update(content.encode("ascii") + b"\n")
    return digest.hexdigest()
