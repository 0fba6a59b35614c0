"""The columns of an archive's tables, which follow from the round's task and from how the round came to be."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from outfox.columns import DECISION_COLUMNS, IMPORT_COLUMNS, OWN_COLUMNS

TEXT, TIME = pa.string(), pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class TableSchemas:
    """The schemas of one round's tables.

    `fields` has the name and role of each field of the task. `decided` says whether the round decided which texts are
    new, and `imported` names the columns that an imported round keeps from its source; None for a collected round.
    """

    kind: str
    fields: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]
    decided: bool = False
    with_established: bool = False
    imported: tuple[str, ...] | None = None

    @classmethod
    def of(cls, spec: Mapping[str, Any], *, imported: tuple[str, ...] | None = None) -> Self:
        """Return the schemas for a task's settings, as a manifest has them."""
        return cls(
            spec["kind"],
            tuple((field["name"], field["role"]) for field in spec["fields"]),
            tuple(label["name"] for label in spec["labels"]),
            imported=imported,
        )

    @property
    def is_qa(self) -> bool:
        """Whether workers select answers instead of choosing labels."""
        return self.kind == "qa"

    def named(self, *roles: str) -> list[tuple[str, str]]:
        """Return the fields with these roles as (name in the task, name of the column)."""
        taken = OWN_COLUMNS
        taken |= DECISION_COLUMNS if self.decided else set()
        taken |= IMPORT_COLUMNS | set(self.imported) if self.imported is not None else set()
        return [(name, f"field_{name}" if name in taken else name) for name, role in self.fields if role in roles]

    @cached_property
    def written(self) -> list[tuple[str, str]]:
        """The fields that were shown and written, without the explanations."""
        return self.named("context", "input", "extra")

    @cached_property
    def reasons(self) -> list[tuple[str, str]]:
        """The author's explanations."""
        return self.named("reason")

    def target(self, prefix: str = "") -> list[tuple[str, pa.DataType]]:
        """Return the columns of a label, or of an answer with its start in the passage."""
        if self.is_qa:
            return [(f"{prefix}answer", TEXT), (f"{prefix}answer_start", pa.int64())]
        return [(f"{prefix}label", TEXT)]

    @cached_property
    def said(self) -> pa.DataType:
        """The type of one model version's output."""
        shares = [("probabilities", pa.struct([(name, pa.float64()) for name in self.labels]))]
        first = [("version", TEXT), ("prediction", TEXT), ("confidence", pa.float64())]
        return pa.struct([*first, *([] if self.is_qa else shares), ("fooled", pa.bool_())])

    @cached_property
    def verdict(self) -> list[tuple[str, pa.DataType]]:
        """The columns of the verdict: the first model's output, then every model's."""
        first = [("model", TEXT), ("prediction", TEXT), ("confidence", pa.float64()), ("fooled", pa.bool_())]
        return [*first, ("verdicts", pa.list_(self.said)), ("judged_at", TIME)]

    @cached_property
    def vote(self) -> pa.DataType:
        """The type of a vote inside its example."""
        return pa.struct([("worker", TEXT), *self.target(), ("flag", TEXT), *self.established])

    @property
    def established(self) -> list[tuple[str, pa.DataType]]:
        """The column that says whether a vote is an established validator's, if the task asks for such votes."""
        return [("established", pa.bool_())] if self.with_established else []

    @cached_property
    def examples(self) -> pa.Schema:
        """The schema of all examples, with their votes."""
        return pa.schema(
            [
                ("id", TEXT),
                ("round", pa.int32()),
                ("context", TEXT),
                *((column, TEXT) for _, column in (*self.written, *self.reasons)),
                *self.target(),
                *self.verdict,
                ("status", TEXT),
                *self.target("gold_"),
                ("split", TEXT),
                *((name, TEXT) for name in self.decision),
                ("author", TEXT),
                ("votes", pa.list_(self.vote)),
                ("tries", pa.int32()),
                ("active_ms", pa.int64()),
                ("source", TEXT),
                ("submitted_at", TIME),
                ("decided_at", TIME),
                *((name, TEXT) for name in self.kept),
            ]
        )

    @property
    def decision(self) -> tuple[str, ...]:
        """The columns that say whether an example is new."""
        return ("duplicate", "duplicate_of") if self.decided else ()

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that only imported rounds have."""
        return () if self.imported is None else ("published_split", "original", *self.imported)

    @cached_property
    def votes(self) -> pa.Schema:
        """The schema of all votes."""
        first = [("example", TEXT), ("round", pa.int32()), ("worker", TEXT), *self.target(), ("flag", TEXT)]
        last = [("comment", TEXT), ("source", TEXT), ("voted_at", TIME), ("active_ms", pa.int64()), *self.established]
        return pa.schema([*first, *last])

    @cached_property
    def attempts(self) -> pa.Schema:
        """The schema of all attempts."""
        first = [("id", TEXT), ("round", pa.int32()), ("example", TEXT), ("worker", TEXT), ("context", TEXT)]
        return pa.schema(
            [
                *first,
                ("number", pa.int32()),
                *((column, TEXT) for _, column in self.written),
                *self.target(),
                *self.verdict,
                ("latency_us", pa.int64()),
                ("source", TEXT),
                ("asked_at", TIME),
            ]
        )

    @cached_property
    def contexts(self) -> pa.Schema:
        """The schema of the contexts that were used."""
        return pa.schema(
            [("id", TEXT), ("round", pa.int32()), *((column, TEXT) for _, column in self.named("context"))]
        )

    @cached_property
    def models(self) -> pa.Schema:
        """The schema of the pinned model versions; nested values are JSON."""
        first = [("version", TEXT), ("round", pa.int32()), ("rank", pa.int32()), ("parent", TEXT), ("sha256", TEXT)]
        rest = ("data_sha256", "files", "data", "settings", "metrics", "code_version")
        return pa.schema([*first, *((name, TEXT) for name in rest)])
