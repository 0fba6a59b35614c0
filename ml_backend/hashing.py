"""SHA-256 hashes of files, JSON values and rows, as manifests store them."""

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from templates.rows import SeedRow
from templates.spec import TaskSpec

LINES_IN_MEMORY = 50_000


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


def data_set_sha256(rows: Iterable[SeedRow], spec: TaskSpec, slices: Sequence[str] = ()) -> tuple[str, int]:
    """Return the hash of the rows with their ids and slices, independent of their order, and their number.

    More rows than fit into a part are sorted on disk, so that memory does not depend on their number.
    """
    digest, count = hashlib.sha256(), 0
    with ExitStack() as stack:
        parts = [_spilled(part, stack) for part in _sorted_parts(_identity(row, spec, slices) for row in rows)]
        for line in heapq.merge(*parts):
            digest.update(line)
            count += 1
    return digest.hexdigest(), count


def _identity(row: SeedRow, spec: TaskSpec, slices: Sequence[str]) -> bytes:
    groups = {name: str(row.extra[name]) for name in slices if row.extra.get(name) is not None}
    about = canonical_json({"id": row.id, **({"slices": groups} if groups else {})})
    return f"{about} {row_content(row, spec)}\n".encode("ascii")


def _sorted_parts(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    while part := list(islice(lines, LINES_IN_MEMORY)):
        part.sort()
        yield part


def _spilled(part: list[bytes], stack: ExitStack) -> Iterable[bytes]:
    if len(part) < LINES_IN_MEMORY:
        return part
    file: Any = stack.enter_context(TemporaryFile())  # noqa: SIM115 - closed by the stack
    file.writelines(part)
    file.seek(0)
    return iter(file.readline, b"")
