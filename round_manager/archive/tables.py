"""Stored rows as tables of an archive; nothing here asks a database, so it can be done beside the reading."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from round_manager.archive.columns import Columns
from round_manager.plain_rows import turned


@dataclass(frozen=True)
class StoredExamples:
    """Some examples and their votes, as read, and what people, contexts and models are called."""

    rows: Sequence[Any]
    authors: Sequence[str]
    contexts: Sequence[str | None]
    versions: Sequence[str]
    votes: Sequence[Any]
    validators: Sequence[str]


@dataclass(frozen=True)
class StoredAttempts:
    """Some attempts, as read, and what people, contexts and models are called."""

    rows: Sequence[Any]
    workers: Sequence[str | None]
    contexts: Sequence[str | None]
    versions: Sequence[str]


@dataclass(frozen=True)
class ArchiveTables:
    """Makes the tables of one round."""

    columns: Columns
    number: int

    def examples(self, stored: StoredExamples) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The examples with their votes inside, and the votes; each example's by time and validator."""
        (ids, numbers, _, _, source, fields, explanation, label, answer, submitted_at, active_ms, tries, verdict, _,
         confidence, fooled, status, gold_label, gold_answer, decided_at, split) = turned(stored.rows, 21)  # fmt: skip
        shape = self.columns
        id_column = pa.array(ids, pa.string())
        votes, starts = self._votes(stored, id_column, np.array(numbers, np.int64))
        inside = pa.StructArray.from_arrays([votes.column(field.name) for field in shape.vote], fields=list(shape.vote))
        values = {
            "id": id_column,
            "context": stored.contexts,
            **shape.fields_of(fields, shape.written),
            **shape.fields_of(explanation, shape.reasons),
            **shape.target_of(label, answer),
            **shape.verdict_of(verdict),
            "model": stored.versions,
            "confidence": confidence,
            "fooled": pa.array(fooled, pa.int8()).cast(pa.bool_()),
            "status": status,
            **shape.target_of(gold_label, gold_answer, "gold_"),
            "split": split,
            "author": stored.authors,
            "votes": pa.ListArray.from_arrays(starts, inside, type=pa.list_(shape.vote)),
            "tries": tries,
            "active_ms": active_ms,
            "source": source,
            "submitted_at": submitted_at,
            "decided_at": decided_at,
        }
        return self.table(shape.examples, len(ids), values), votes

    def attempts(self, stored: StoredAttempts) -> pa.RecordBatch:
        """The attempts, as they were read."""
        (ids, example, _, _, number, fields, label, answer, verdict, _, confidence, fooled, latency, source,
         asked_at) = turned(stored.rows, 15)  # fmt: skip
        shape = self.columns
        values = {
            "id": ids,
            "example": example,
            "worker": stored.workers,
            "context": stored.contexts,
            "number": number,
            **shape.fields_of(fields, shape.written),
            **shape.target_of(label, answer),
            **shape.verdict_of(verdict),
            "model": stored.versions,
            "confidence": confidence,
            "fooled": pa.array(fooled, pa.int8()).cast(pa.bool_()),
            "latency_us": latency,
            "source": source,
            "asked_at": asked_at,
        }
        return self.table(shape.attempts, len(ids), values)

    def table(self, schema: pa.Schema, rows: int, values: dict[str, Any]) -> pa.RecordBatch:
        """A table of the schema from its columns, and the round's number beside them."""
        values["round"] = pa.repeat(pa.scalar(self.number, pa.int32()), rows)
        columns = [
            values[field.name] if isinstance(values[field.name], pa.Array) else pa.array(values[field.name], field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _votes(
        self, stored: StoredExamples, ids: pa.Array, numbers: NDArray[np.int64]
    ) -> tuple[pa.RecordBatch, pa.Array]:
        """The votes in order, and where those of each example begin."""
        example, _, label, answer, flag, comment, source, voted_at, active_ms = turned(stored.votes, 9)
        shape = self.columns
        by_number = np.argsort(numbers)
        places = by_number[np.searchsorted(numbers[by_number], np.array(example, np.int64))]
        order = pa.array(_in_order(places, np.array(voted_at, np.int64), stored.validators))
        values = {
            "example": ids.take(pa.array(places)),
            "worker": stored.validators,
            **shape.target_of(label, answer),
            "flag": flag,
            "comment": comment,
            "source": source,
            "voted_at": voted_at,
            "active_ms": active_ms,
        }
        counts = np.bincount(places, minlength=len(ids))
        starts = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        return self.table(shape.votes, len(example), values).take(order), starts


def _in_order(places: NDArray[np.int64], at: NDArray[np.int64], who: Sequence[str]) -> NDArray[np.int64]:
    """By example and time, and by pseudonym where these are the same, which is rare."""
    order: NDArray[np.int64] = np.lexsort((at, places))
    same = (np.diff(places[order]) == 0) & (np.diff(at[order]) == 0)
    if same.any():
        order = np.lexsort((np.array(who), at, places))
    return order
