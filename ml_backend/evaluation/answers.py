"""A model's answers to the rows of a data set: asked in batches, stored as Parquet, and read back as arrays.

Answers are written in parts. A pass that was interrupted continues after the last complete part.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from ml_backend.errors import EvaluationDataInvalid, ModelMismatch
from ml_backend.evaluation.metrics import exact_and_f1
from ml_backend.targets.target import LabelPrediction, SpanPrediction, Target
from templates.rows import SeedRow
from templates.spec import TaskSpec

# Rows in one call: enough for batches of rows of equal length, and few enough to report progress.
ROWS_PER_CALL = 512
# What a process that is killed loses at most.
ROWS_PER_PART = 1_024
ROWS_PER_READ = 65_536
SLICE = "slice_"
PART = "part-{:06d}.parquet"
# The key of a part's metadata that says how many items it answers.
ITEMS = b"items"

Item = TypeVar("Item")


class Answer(NamedTuple):
    """What a model answered to one row; its confidence is None if it is not known."""

    text: str
    confidence: float | None


class Answerer(Protocol):
    """Answers rows: a target, or a file of predictions."""

    def answers(self, rows: Sequence[SeedRow]) -> list[Answer]:
        """Return one answer for each row, in their order."""


@dataclass(frozen=True)
class TargetAnswerer:
    """Asks a target."""

    target: Target
    spec: TaskSpec

    def answers(self, rows: Sequence[SeedRow]) -> list[Answer]:
        wanted = SpanPrediction if self.spec.kind == "qa" else LabelPrediction
        found = self.target.predict([row.fields for row in rows])
        for one in found:
            if not isinstance(one, wanted) or (self.spec.labels and one.text not in self.spec.label_names):
                raise ModelMismatch(f"{self.target.version} answers `{one.text[:60]}`, which the task does not have")
        return [Answer(one.text, one.confidence) for one in found]


@dataclass(frozen=True)
class Pass(Generic[Item]):
    """One model's pass over the items of a data set, into a folder that outlives the process.

    `answer` returns the answers to a few items as rows with these columns.
    """

    folder: Path
    schema: pa.Schema
    answer: Callable[[Sequence[Item]], pa.RecordBatch]
    items_per_call: int = ROWS_PER_CALL
    items_per_part: int = ROWS_PER_PART

    @property
    def done(self) -> int:
        """How many items earlier runs have answered."""
        return sum(items for _, items in self._parts())

    def run(self, items: Iterable[Item], advance: Callable[[int], None]) -> None:
        """Answer the items that have no answer yet; `advance` may raise, and gets the number of items done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        done, number = self.done, len(self._parts())
        rest = islice(items, done, None)
        advance(done)
        while part := list(islice(rest, self.items_per_part)):
            batches = []
            for first in range(0, len(part), self.items_per_call):
                called = part[first : first + self.items_per_call]
                batches.append(self.answer(called))
                advance(len(called))
            self._write(number, batches, len(part))
            number += 1

    def collect(self, path: Path) -> int:
        """Write all answers into one file; return their number."""
        count = 0
        with parquet.ParquetWriter(path, self.schema, compression="zstd") as writer:
            for part, _ in self._parts():
                table = parquet.read_table(part, partitioning=None).replace_schema_metadata(None)
                writer.write_table(table)
                count += table.num_rows
        return count

    def _parts(self) -> list[tuple[Path, int]]:
        """Return the complete parts with the number of their items; what follows an incomplete one is removed."""
        paths = sorted(self.folder.glob("part-*.parquet"))
        found = []
        for place, path in enumerate(paths):
            try:
                found.append((path, int((parquet.read_metadata(path).metadata or {})[ITEMS])))
            except (pa.ArrowException, OSError, KeyError, ValueError):
                for other in paths[place:]:
                    other.unlink()
                break
        return found

    def _write(self, number: int, batches: Sequence[pa.RecordBatch], items: int) -> None:
        path = self.folder / PART.format(number)
        draft = path.with_suffix(f".{os.getpid()}.draft")
        table = pa.Table.from_batches(batches, schema=self.schema)
        parquet.write_table(table.replace_schema_metadata({ITEMS: str(items)}), draft)
        draft.replace(path)


def answer_pass(folder: Path, answerer: Answerer, spec: TaskSpec, slices: Sequence[str]) -> Pass[SeedRow]:
    """Return the pass over the rows of a data set."""

    def answer(rows: Sequence[SeedRow]) -> pa.RecordBatch:
        return _batch(rows, answerer.answers(rows), spec, slices)

    return Pass(folder, answer_schema(spec, slices), answer)


def answer_schema(spec: TaskSpec, slices: Sequence[str]) -> pa.Schema:
    """Return the columns of stored answers."""
    exact = [("exact", pa.float32())] if spec.kind == "qa" else []
    own = [("id", pa.string()), ("gold", pa.string()), ("prediction", pa.string()), ("confidence", pa.float64())]
    return pa.schema([*own, ("score", pa.float32()), *exact, *((SLICE + name, pa.string()) for name in slices)])


def _batch(rows: Sequence[SeedRow], answers: Sequence[Answer], spec: TaskSpec, slices: Sequence[str]) -> pa.RecordBatch:
    gold = [str(row.answer if spec.kind == "qa" else row.label) for row in rows]
    pairs = zip(answers, gold, strict=True)
    columns: dict[str, Any] = {
        "id": [row.id for row in rows],
        "gold": gold,
        "prediction": [one.text for one in answers],
        "confidence": [one.confidence for one in answers],
    }
    if spec.kind == "qa":
        scored = [exact_and_f1(answer.text, right) for answer, right in pairs]
        columns |= {"score": [f1 for _, f1 in scored], "exact": [exact for exact, _ in scored]}
    else:
        columns["score"] = [float(answer.text == right) for answer, right in pairs]
    for name in slices:
        columns[SLICE + name] = [_text_of(row.extra.get(name)) for row in rows]
    return pa.RecordBatch.from_pydict(columns, schema=answer_schema(spec, slices))


def _text_of(value: object) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True)
class ScoredAnswers:
    """Stored answers as arrays, without texts and ids.

    `gold` and `predicted` are places in the task's labels. A confidence that is not known is NaN. `slices` has for each
    slice column the place of each row's value among its names; -1 for none.
    """

    labels: tuple[str, ...]
    gold: NDArray[np.int16]
    predicted: NDArray[np.int16]
    score: NDArray[np.float32]
    exact: NDArray[np.float32]
    confidence: NDArray[np.float64]
    slices: Mapping[str, tuple[NDArray[np.int32], tuple[str, ...]]]

    def __len__(self) -> int:
        return len(self.score)


def read_answers(path: Path, spec: TaskSpec) -> ScoredAnswers:
    """Return the scores of a stored file of answers."""
    columns: dict[str, list[NDArray[Any]]] = {}
    named: dict[str, dict[str, int]] = {}
    for batch in _batches(path, exclude=("id", *(("gold", "prediction") if spec.kind == "qa" else ()))):
        for name in batch.schema.names:
            columns.setdefault(name, []).append(_numbers(batch.column(name), name, spec.label_names, named))
    merged = {name: np.concatenate(parts) for name, parts in columns.items()}
    if not len(merged.get("score", ())):
        raise EvaluationDataInvalid("there are no rows to evaluate on")
    none = np.empty(0, dtype=np.int16)
    slices = {
        name.removeprefix(SLICE): (codes, tuple(named[name]))
        for name, codes in merged.items()
        if name.startswith(SLICE)
    }
    return ScoredAnswers(
        spec.label_names,
        merged.get("gold", none),
        merged.get("prediction", none),
        merged["score"],
        merged.get("exact", merged["score"]),
        merged["confidence"],
        slices,
    )


def read_scores(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return the ids and scores of a stored file of answers, for paired comparisons."""
    table = parquet.read_table(path, columns=["id", "score"], partitioning=None)
    return table["id"].to_pylist(), table["score"].to_numpy()


def _batches(path: Path, exclude: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with parquet.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name not in exclude]
        yield from file.iter_batches(batch_size=ROWS_PER_READ, columns=names)


def _numbers(column: pa.Array, name: str, labels: Sequence[str], named: dict[str, dict[str, int]]) -> NDArray[Any]:
    found: NDArray[Any]
    if name in ("gold", "prediction"):
        places = pc.index_in(column, value_set=pa.array(labels, pa.string()))
        found = places.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int16)
    elif name.startswith(SLICE):
        known = named.setdefault(name, {})
        for one in pc.unique(column).to_pylist():
            if one is not None:
                known.setdefault(one, len(known))
        places = pc.index_in(column, value_set=pa.array(list(known), pa.string()), skip_nulls=True)
        found = places.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    else:
        found = column.to_numpy(zero_copy_only=False).astype(np.float64 if name == "confidence" else np.float32)
    return found
