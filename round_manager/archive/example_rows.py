"""The examples of an archive as rows to evaluate models on, read in batches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import parquet

from outfox.columns import OWN_COLUMNS
from round_manager.archive.files import ArchiveManifest
from round_manager.archive.reader import open_source, table_batches
from round_manager.errors import ArchiveCorrupt
from round_manager.examples.rows import row_of_example
from round_manager.models import Split
from templates import SeedRow, TaskSpec

EXAMPLES = "examples"


def example_rows(uri: str, spec: TaskSpec, split: Split = Split.HELD_OUT) -> Iterator[SeedRow]:
    """Yield the examples of one split that fit the task, in the archive's order.

    The columns that the archive names as slices are in `extra`.
    """
    source = open_source(uri)
    manifest = source.manifest()
    name = f"{EXAMPLES}.parquet"
    if name not in manifest.files:
        raise ArchiveCorrupt(f"{uri} has no {name}; restore the archive from a copy")
    slices = slices_of(manifest)
    gold = ("gold_answer", "gold_answer_start") if spec.kind == "qa" else ("gold_label",)
    with source.local(name, manifest.files[name]) as path:
        there = frozenset(parquet.read_schema(path).names)
        columns = {field: _column(field, there) for field in spec.model_input}
        wanted = [one for one in ("id", "split", *gold, *columns.values(), *slices) if one in there]
        for batch in table_batches(path.parent, EXAMPLES, wanted):
            for row in batch.to_pylist():
                found = _seed_row(row, split, columns, slices, spec) if row.get("split") == split.value else None
                if found is not None:
                    yield found


def slices_of(manifest: ArchiveManifest) -> tuple[str, ...]:
    """Return the columns of the archive that group its rows."""
    return tuple(origin_of(manifest).get("slices", ()))


def origin_of(manifest: ArchiveManifest) -> Mapping[str, Any]:
    """Return where imported rows come from; nothing for a collected round."""
    return getattr(manifest, "origin", None) or {}


def _column(field: str, there: frozenset[str]) -> str:
    renamed = f"field_{field}"
    return renamed if field in OWN_COLUMNS and renamed in there else field


def _seed_row(
    row: Mapping[str, Any], split: Split, columns: Mapping[str, str], slices: Sequence[str], spec: TaskSpec
) -> SeedRow | None:
    fields = {field: row.get(column) for field, column in columns.items()}
    answer = {"text": row.get("gold_answer"), "start": row.get("gold_answer_start")}
    extra = {name: row[name] for name in slices if row.get(name) is not None}
    return row_of_example(str(row["id"]), split, fields, row.get("gold_label"), answer, spec, extra)
