"""The content of rows: what makes two of them the same to a model, and a hash that does not depend on their order."""

import hashlib
from collections.abc import Sequence

from ml_backend.hashing import canonical_json
from templates.rows import SeedRow
from templates.spec import TaskSpec


def content_of(row: SeedRow, spec: TaskSpec) -> str:
    """What the model reads of a row, and the right answer, as one line."""
    fields = {name: row.fields[name] for name in spec.model_input}
    answer = {"label": row.label, "answer": row.answer, "answer_start": row.answer_start}
    return canonical_json({"fields": fields, **answer})


def in_order(rows: Sequence[SeedRow], spec: TaskSpec) -> list[SeedRow]:
    """The rows in the order of their content, whatever the order of their file."""
    return sorted(rows, key=lambda row: content_of(row, spec))


def rows_sha256(rows: Sequence[SeedRow], spec: TaskSpec) -> str:
    """The hash of the rows, however they are ordered."""
    digest = hashlib.sha256()
    for content in sorted(content_of(row, spec) for row in rows):
        digest.update(content.encode("ascii") + b"\n")
    return digest.hexdigest()
