"""Stored rows as tables of an archive; nothing here asks a database, so it can be done beside the reading."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from round_manager.archive.columns import TIME, Columns
from round_manager.archive.columnwise import Gathered


@dataclass(frozen=True)
class StoredExamples:
    """Some examples and their votes, as read, and what people, contexts and models are called."""

    rows: Gathered
    authors: pa.Array
    contexts: pa.Array
    versions: pa.Array
    votes: Gathered
    validators: pa.Array


@dataclass(frozen=True)
class StoredAttempts:
    """Some attempts, as read, and what people, contexts and models are called."""

    rows: Gathered
    workers: pa.Array
    contexts: pa.Array
    versions: pa.Array


@dataclass(frozen=True)
class ArchiveTables:
    """Makes the tables of one round."""

    columns: Columns
    number: int

    def examples(self, stored: StoredExamples) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The examples with their votes inside, and the votes; each example's by time and validator."""
        shape, rows = self.columns, stored.rows
        votes, starts = self._votes(stored)
        inside = pa.StructArray.from_arrays([votes.column(field.name) for field in shape.vote], fields=list(shape.vote))
        values = {
            **_as_they_are(rows, "id", "status", "split", "tries", "active_ms", "source"),
            **_times(rows, "submitted_at", "decided_at"),
            **shape.fields_of(rows.objects["fields"], shape.written),
            **(shape.fields_of(rows.objects["explanation"], shape.reasons) if shape.reasons else {}),
            **shape.target_of(rows),
            **shape.verdict_of(rows.objects["verdict"]),
            "fooled": rows["fooled"].cast(pa.bool_()),
            **shape.target_of(rows, "gold_"),
            "context": stored.contexts,
            "model": stored.versions,
            "author": stored.authors,
            "votes": pa.ListArray.from_arrays(starts, inside, type=pa.list_(shape.vote)),
        }
        return self.table(shape.examples, len(rows), values), votes

    def attempts(self, stored: StoredAttempts) -> pa.RecordBatch:
        """The attempts, as they were read."""
        shape, rows = self.columns, stored.rows
        values = {
            **_as_they_are(rows, "id", "example", "number", "latency_us", "source"),
            **_times(rows, "asked_at"),
            **shape.fields_of(rows.objects["fields"], shape.written),
            **shape.target_of(rows),
            **shape.verdict_of(rows.objects["verdict"]),
            "fooled": rows["fooled"].cast(pa.bool_()),
            "worker": stored.workers,
            "context": stored.contexts,
            "model": stored.versions,
        }
        return self.table(shape.attempts, len(rows), values)

    def table(self, schema: pa.Schema, rows: int, values: dict[str, Any]) -> pa.RecordBatch:
        """A table of the schema from its columns, and the round's number beside them."""
        values["round"] = pa.repeat(pa.scalar(self.number, pa.int32()), rows)
        columns = [
            values[field.name] if isinstance(values[field.name], pa.Array) else pa.array(values[field.name], field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _votes(self, stored: StoredExamples) -> tuple[pa.RecordBatch, pa.Array]:
        """The votes in order, and where those of each example begin."""
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
        }
        counts = np.bincount(places, minlength=len(ids))
        starts = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        return self.table(shape.votes, len(rows), values).take(order), starts


def _as_they_are(rows: Gathered, *names: str) -> dict[str, pa.Array]:
    return {name: rows[name] for name in names}


def _times(rows: Gathered, *names: str) -> dict[str, pa.Array]:
    return {name: rows[name].cast(TIME) for name in names}


def _in_order(places: NDArray[np.int64], at: NDArray[np.int64], who: pa.Array) -> NDArray[np.int64]:
    """By example and time, and by pseudonym where these are the same, which is rare."""
    order: NDArray[np.int64] = np.lexsort((at, places))
    same = (np.diff(places[order]) == 0) & (np.diff(at[order]) == 0)
    if same.any():
        order = np.lexsort((np.array(who.to_pylist()), at, places))
    return order
