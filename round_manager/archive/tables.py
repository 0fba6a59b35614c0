"""The tables of an archive: their columns, which follow from the round's spec, and how stored rows fill them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from outfox.schemas import TEXT, TIME, TableSchemas
from round_manager.bulk_rows import ColumnBatch, parse_json_lines
from templates import TaskSpec

ANSWER = pa.schema([("text", TEXT), ("start", pa.int64())])


class Columns(TableSchemas):
    """The columns of one round's tables, and how its stored JSON becomes them."""

    spec: TaskSpec

    def __init__(self, spec: TaskSpec, decided: bool = False, imported: tuple[str, ...] | None = None) -> None:  # noqa: FBT001, FBT002 - as a dataclass takes them
        fields = tuple((field.name, field.role) for field in spec.fields)
        established = bool(spec.validation.established_votes)
        super().__init__(spec.kind, fields, spec.label_names, decided, established, imported)
        object.__setattr__(self, "spec", spec)

    def fields_of(self, lines: bytes, names: list[tuple[str, str]]) -> dict[str, pa.Array]:
        """Return stored JSON objects, one per line, as one column per name."""
        if not names:
            return {}
        table = parse_json_lines(lines, pa.schema([(name, TEXT) for name, _ in names]))
        return {column: table[name].combine_chunks() for name, column in names}

    @property
    def answers(self) -> list[str]:
        """The stored JSON objects that `target_of` needs, by the column's name without its prefix."""
        return ["answer"] if self.is_qa else []

    def target_of(self, rows: ColumnBatch, prefix: str = "") -> dict[str, pa.Array]:
        """Return the columns of `target` from stored rows."""
        if not self.is_qa:
            return {f"{prefix}label": rows[f"{prefix}label"]}
        table = parse_json_lines(rows.objects[f"{prefix}answer"], ANSWER)
        names = {"answer": "text", "answer_start": "start"}
        return {f"{prefix}{column}": table[name].combine_chunks() for column, name in names.items()}

    def verdict_of(self, lines: bytes) -> dict[str, pa.Array]:
        """Return every model's output, the first one's prediction and confidence, and when they were asked."""
        table = parse_json_lines(lines, pa.schema([("said", pa.list_(self.said)), ("judged_at", TEXT)]))
        said = table["said"].combine_chunks()
        first = pa.compute.list_element(said, 0) if len(said) and said.null_count == 0 else _first(said)
        shown = {name: pa.compute.struct_field(first, name) for name in ("prediction", "confidence")}
        return {"verdicts": said, **shown, "judged_at": table["judged_at"].combine_chunks().cast(TIME)}


def _first(said: pa.ListArray) -> pa.Array:
    """Return the first item of each list, null for an empty list."""
    return pa.array([one[0] if one else None for one in said.to_pylist()], said.type.value_type)


@dataclass(frozen=True)
class StoredExamples:
    """Some examples and their votes, as read, with the names of workers and models."""

    rows: ColumnBatch
    authors: pa.Array
    versions: pa.Array
    votes: ColumnBatch
    validators: pa.Array


@dataclass(frozen=True)
class StoredAttempts:
    """Some attempts, as read, with the names of workers and models."""

    rows: ColumnBatch
    workers: pa.Array
    versions: pa.Array


@dataclass(frozen=True)
class ArchiveTables:
    """Builds the tables of one round from stored rows; it needs no database and can run in another thread."""

    columns: Columns
    number: int

    def examples(self, stored: StoredExamples) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the examples with their votes inside, and the votes; ordered by example, time and validator."""
        shape, rows = self.columns, stored.rows
        votes, starts = self._votes(stored)
        inside = pa.StructArray.from_arrays([votes.column(field.name) for field in shape.vote], fields=list(shape.vote))
        values = {
            **_as_they_are(rows, "id", "status", "split", "tries", "active_ms", "source", *shape.decision),
            **_times(rows, "submitted_at", "decided_at"),
            **shape.fields_of(rows.objects["fields"], shape.written),
            **(shape.fields_of(rows.objects["explanation"], shape.reasons) if shape.reasons else {}),
            **shape.target_of(rows),
            **shape.verdict_of(rows.objects["verdict"]),
            "fooled": rows["fooled"].cast(pa.bool_()),
            **shape.target_of(rows, "gold_"),
            "context": rows["key"],
            "model": stored.versions,
            "author": stored.authors,
            "votes": pa.ListArray.from_arrays(starts, inside, type=pa.list_(shape.vote)),
        }
        return self.table(shape.examples, len(rows), values), votes

    def attempts(self, stored: StoredAttempts) -> pa.RecordBatch:
        """Return the attempts in the order in which they were read."""
        shape, rows = self.columns, stored.rows
        values = {
            **_as_they_are(rows, "id", "example", "number", "latency_us", "source"),
            **_times(rows, "asked_at"),
            **shape.fields_of(rows.objects["fields"], shape.written),
            **shape.target_of(rows),
            **shape.verdict_of(rows.objects["verdict"]),
            "fooled": rows["fooled"].cast(pa.bool_()),
            "worker": stored.workers,
            "context": rows["key"],
            "model": stored.versions,
        }
        return self.table(shape.attempts, len(rows), values)

    def table(self, schema: pa.Schema, rows: int, values: dict[str, Any]) -> pa.RecordBatch:
        """Return a table with this schema from its columns, with the round's number added."""
        values["round"] = pa.repeat(pa.scalar(self.number, pa.int32()), rows)
        columns = [
            values[field.name] if isinstance(values[field.name], pa.Array) else pa.array(values[field.name], field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _votes(self, stored: StoredExamples) -> tuple[pa.RecordBatch, pa.Array]:
        """Return the votes in order, and the index of each example's first vote."""
        shape, rows, ids = self.columns, stored.votes, stored.rows["id"]
        numbers = stored.rows["number"].to_numpy()
        by_number = np.argsort(numbers)
        places = by_number[np.searchsorted(numbers[by_number], rows["example"].to_numpy())]
        order = pa.array(_in_order(places, rows["voted_at"].to_numpy(), stored.validators))
        values = {
            "example": ids.take(pa.array(places)),
            "worker": stored.validators,
            **shape.target_of(rows),
            **_as_they_are(rows, "flag", "comment", "source", "active_ms"),
            **_times(rows, "voted_at"),
            "established": rows["established"].cast(pa.bool_()).fill_null(False),
        }
        counts = np.bincount(places, minlength=len(ids))
        starts = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        return self.table(shape.votes, len(rows), values).take(order), starts


def _as_they_are(rows: ColumnBatch, *names: str) -> dict[str, pa.Array]:
    return {name: rows[name] for name in names}


def _times(rows: ColumnBatch, *names: str) -> dict[str, pa.Array]:
    return {name: rows[name].cast(TIME) for name in names}


def _in_order(places: NDArray[np.int64], at: NDArray[np.int64], actor: pa.Array) -> NDArray[np.int64]:
    """Order by example and time, and by pseudonym if these are equal, which is rare."""
    order: NDArray[np.int64] = np.lexsort((at, places))
    same = (np.diff(places[order]) == 0) & (np.diff(at[order]) == 0)
    if same.any():
        order = np.lexsort((np.array(actor.to_pylist()), at, places))
    return order
