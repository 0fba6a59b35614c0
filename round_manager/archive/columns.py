"""The columns of an archive's tables, which follow from the round's spec."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from round_manager.archive.columnwise import Gathered, parsed
from templates import TaskSpec
from templates.spec import COLUMNS

TEXT, TIME = pa.string(), pa.timestamp("us", tz="UTC")
ANSWER = pa.schema([("text", TEXT), ("start", pa.int64())])


@dataclass(frozen=True)
class Columns:
    """The columns of one round's tables, and how its stored JSON becomes them."""

    spec: TaskSpec

    @property
    def is_qa(self) -> bool:
        """Whether people select answers, rather than choose labels."""
        return self.spec.kind == "qa"

    def named(self, *roles: str) -> list[tuple[str, str]]:
        """The fields of these roles, as (name in the spec, name of the column)."""
        names = [field.name for field in self.spec.fields if field.role in roles]
        return [(name, f"field_{name}" if name in COLUMNS else name) for name in names]

    @cached_property
    def written(self) -> list[tuple[str, str]]:
        """What was shown and written, but for the reasons."""
        return self.named("context", "input", "extra")

    @cached_property
    def reasons(self) -> list[tuple[str, str]]:
        """The author's reasons."""
        return self.named("reason")

    def target(self, prefix: str = "") -> list[tuple[str, pa.DataType]]:
        """The columns of a label, or of an answer with its place in the passage."""
        if self.is_qa:
            return [(f"{prefix}answer", TEXT), (f"{prefix}answer_start", pa.int64())]
        return [(f"{prefix}label", TEXT)]

    @cached_property
    def said(self) -> pa.DataType:
        """What one model version said."""
        shares = [("probabilities", pa.struct([(name, pa.float64()) for name in self.spec.label_names]))]
        first = [("version", TEXT), ("prediction", TEXT), ("confidence", pa.float64())]
        return pa.struct([*first, *([] if self.is_qa else shares), ("fooled", pa.bool_())])

    @cached_property
    def verdict(self) -> list[tuple[str, pa.DataType]]:
        """The verdict that stands: the first model's answer, then every model's."""
        first = [("model", TEXT), ("prediction", TEXT), ("confidence", pa.float64()), ("fooled", pa.bool_())]
        return [*first, ("verdicts", pa.list_(self.said)), ("judged_at", TIME)]

    @cached_property
    def vote(self) -> pa.DataType:
        """A vote inside its example."""
        return pa.struct([("worker", TEXT), *self.target(), ("flag", TEXT)])

    @cached_property
    def examples(self) -> pa.Schema:
        """Every example, with its votes."""
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
                ("author", TEXT),
                ("votes", pa.list_(self.vote)),
                ("tries", pa.int32()),
                ("active_ms", pa.int64()),
                ("source", TEXT),
                ("submitted_at", TIME),
                ("decided_at", TIME),
            ]
        )

    @cached_property
    def votes(self) -> pa.Schema:
        """Every vote."""
        first = [("example", TEXT), ("round", pa.int32()), ("worker", TEXT), *self.target(), ("flag", TEXT)]
        return pa.schema([*first, ("comment", TEXT), ("source", TEXT), ("voted_at", TIME), ("active_ms", pa.int64())])

    @cached_property
    def attempts(self) -> pa.Schema:
        """Every question put to the models."""
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
        """What the round's work was written for."""
        return pa.schema(
            [("id", TEXT), ("round", pa.int32()), *((column, TEXT) for _, column in self.named("context"))]
        )

    @cached_property
    def models(self) -> pa.Schema:
        """The model versions that the round pins; what has a form of its own is JSON."""
        first = [("version", TEXT), ("round", pa.int32()), ("rank", pa.int32()), ("parent", TEXT), ("sha256", TEXT)]
        rest = ("data_sha256", "files", "data", "settings", "metrics", "code_version")
        return pa.schema([*first, *((name, TEXT) for name in rest)])

    def fields_of(self, lines: bytes, names: list[tuple[str, str]]) -> dict[str, pa.Array]:
        """Stored JSON objects, one to a line, as a column for each of the names."""
        if not names:
            return {}
        table = parsed(lines, pa.schema([(name, TEXT) for name, _ in names]))
        return {column: table[name].combine_chunks() for name, column in names}

    @property
    def answers(self) -> list[str]:
        """The stored JSON objects that `target_of` needs, by the column's name without its prefix."""
        return ["answer"] if self.is_qa else []

    def target_of(self, rows: Gathered, prefix: str = "") -> dict[str, pa.Array]:
        """The columns of `target` from what is stored."""
        if not self.is_qa:
            return {f"{prefix}label": rows[f"{prefix}label"]}
        table = parsed(rows.objects[f"{prefix}answer"], ANSWER)
        names = {"answer": "text", "answer_start": "start"}
        return {f"{prefix}{column}": table[name].combine_chunks() for column, name in names.items()}

    def verdict_of(self, lines: bytes) -> dict[str, pa.Array]:
        """Every model's answer, what the first one said and how sure it was, and when they were asked."""
        table = parsed(lines, pa.schema([("said", pa.list_(self.said)), ("judged_at", TEXT)]))
        said = table["said"].combine_chunks()
        first = pa.compute.list_element(said, 0) if len(said) and said.null_count == 0 else _first(said)
        shown = {name: pa.compute.struct_field(first, name) for name in ("prediction", "confidence")}
        return {"verdicts": said, **shown, "judged_at": table["judged_at"].combine_chunks().cast(TIME)}


def _first(said: pa.ListArray) -> pa.Array:
    """The first of each list, null where there is none."""
    return pa.array([one[0] if one else None for one in said.to_pylist()], said.type.value_type)
