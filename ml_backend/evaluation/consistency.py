"""The axes robustness and fairness: a model's answers to perturbed copies of the rows.

The consistency of a row is the mean, over its copies, of the agreement with the model's own answer to the original: the
same label, or the word F1 of two answers. Copies are also compared with the right answer. Every figure is a mean over
originals, as in Dynabench's Dynaboard; originals that no perturbation changes are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from ml_backend.evaluation.answers import ROWS_PER_READ, Answer, Answerer, Pass, ScoredAnswers
from ml_backend.evaluation.metrics import exact_and_f1
from ml_backend.evaluation.performance import mean_value, slices_of
from ml_backend.evaluation.values import AxisResult, Value
from ml_backend.perturbations import Edit, edits_for, edits_version, perturb
from ml_backend.perturbations.edit import primary
from ml_backend.perturbations.word_lists import LABEL_WORDS
from outfox.intervals import REPEATS, bootstrap
from templates.rows import SeedRow
from templates.spec import TaskSpec

ConsistencyAxis = Literal["robustness", "fairness"]
ROBUSTNESS: ConsistencyAxis = "robustness"
FAIRNESS: ConsistencyAxis = "fairness"
HEADLINE = "consistency"
SEED = 0
SLICE = "perturbation"
# Joins the id of a row and the name of an edit in the id of a copy.
JOINT = "#"
# Every original has up to as many copies as there are edits.
ORIGINALS_PER_CALL = 64
ORIGINALS_PER_PART = 256

SCHEMA = pa.schema([
    ("id", pa.string()), ("original", pa.int64()), ("perturbation", pa.string()), ("prediction", pa.string()),
    ("same", pa.float32()), ("score", pa.float32()), ("original_score", pa.float32()),
])  # fmt: skip

Column = NDArray[Any]


class Original(NamedTuple):
    """A row with its place in the data set, and the model's own answer to it."""

    place: int
    row: SeedRow
    answer: str
    score: float


def task_edits(axis: ConsistencyAxis, spec: TaskSpec) -> tuple[Edit, ...]:
    """Return the edits of an axis that fit the task: its kind, and every language of its texts."""
    fitting = (edits_for(axis, language=language, kind=spec.kind) for language in spec.languages)
    first, *others = fitting
    return tuple(edit for edit in first if all(edit in other for other in others))


def recipe(axis: ConsistencyAxis, spec: TaskSpec) -> dict[str, Any]:
    """Return what determines the figures of the axis, besides the model and the rows."""
    edits = edits_version(task_edits(axis, spec))
    settings = {"languages": list(spec.languages), "interval": "bootstrap", "repeats": REPEATS}
    return {"axis": axis, "version": 1, "edits": edits, "seed": SEED, **settings}


def perturbed_copies(row: SeedRow, edits: Sequence[Edit], spec: TaskSpec) -> list[SeedRow]:
    """Return the copies of a row, one for each edit that changes it; their ids name the row and the edit."""
    # The edits expect the passage of QA first.
    fields = spec.model_input[::-1] if spec.kind == "qa" else spec.model_input
    first, *others = spec.languages
    protected = (*spec.label_names, *(word for one in others for word in LABEL_WORDS.get(primary(one), ())))
    found = perturb([row], edits, fields=fields, language=first, kind=spec.kind, protected=protected, seed=SEED)
    return [
        SeedRow(f"{row.id}{JOINT}{copy.edit}", row.split, copy.fields, row.label, row.answer, copy.answer_start, {})
        for copy in found
    ]


def edit_of(copy_id: str) -> str:
    """Return the name of the edit in the id of a copy; empty for other ids."""
    return copy_id.rpartition(JOINT)[2] if JOINT in copy_id else ""


def originals(rows: Iterable[SeedRow], answers: Path) -> Iterator[Original]:
    """Yield the rows with the model's stored answers to them."""
    pairs = zip(rows, _stored_answers(answers), strict=True)
    for place, (row, (row_id, answer, score)) in enumerate(pairs):
        if row.id != row_id:
            raise ValueError(f"row {place} has the id {row.id}, its answer {row_id}")
        yield Original(place, row, answer, score)


def _stored_answers(path: Path) -> Iterator[tuple[str, str, float]]:
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS_PER_READ, columns=["id", "prediction", "score"]):
            yield from zip(*(batch.column(name).to_pylist() for name in ("id", "prediction", "score")), strict=True)


def copy_pass(folder: Path, answerer: Answerer, edits: Sequence[Edit], spec: TaskSpec) -> Pass[Original]:
    """Return the pass over the copies of all originals."""

    def answer(some: Sequence[Original]) -> pa.RecordBatch:
        pairs = [(one, copy) for one in some for copy in perturbed_copies(one.row, edits, spec)]
        answers = answerer.answers([copy for _, copy in pairs]) if pairs else []
        return _batch(pairs, answers, spec)

    return Pass(folder, SCHEMA, answer, ORIGINALS_PER_CALL, ORIGINALS_PER_PART)


def _batch(pairs: Sequence[tuple[Original, SeedRow]], answers: Sequence[Answer], spec: TaskSpec) -> pa.RecordBatch:
    gold = [str(copy.answer if spec.kind == "qa" else copy.label) for _, copy in pairs]
    said = [one.text for one in answers]
    columns: dict[str, Any] = {
        "id": [one.row.id for one, _ in pairs],
        "original": [one.place for one, _ in pairs],
        "perturbation": [edit_of(copy.id) for _, copy in pairs],
        "prediction": said,
        "same": [_agreement(text, one.answer, spec) for text, (one, _) in zip(said, pairs, strict=True)],
        "score": [_agreement(text, right, spec) for text, right in zip(said, gold, strict=True)],
        "original_score": [one.score for one, _ in pairs],
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _agreement(answer: str, other: str, spec: TaskSpec) -> float:
    """Return the metric of an answer, 0 to 1, as if the other one were right."""
    return exact_and_f1(answer, other)[1] if spec.kind == "qa" else float(answer == other)


def consistency(axis: ConsistencyAxis, path: Path, answers: ScoredAnswers, spec: TaskSpec) -> AxisResult:
    """Return the figures of a stored file of answers to copies; `answers` are those to the originals.

    On all originals, on each slice of the data set, and for each perturbation: consistency, accuracy (F1 for QA)
    against the right answers, and how much of it the copies lose against their originals.
    """
    edits = task_edits(axis, spec)
    made = recipe(axis, spec)
    if not edits:
        languages = ", ".join(spec.languages)
        return AxisResult(axis, made, HEADLINE, [], note=f"there is no perturbation of {axis} for texts in {languages}")
    copies = _read(path)
    if not len(copies["same"]):
        return AxisResult(axis, made, HEADLINE, [], note=f"no perturbation of {axis} changes a row")
    metric = "f1" if spec.kind == "qa" else "accuracy"
    values: list[Value] = []
    for name, rows in slices_of(answers):
        values += _values(metric, name, copies, rows[copies["original"]])
    counts = {}
    for edit in edits:
        mine = copies["perturbation"] == edit.name
        counts[edit.name] = int(mine.sum())
        values += _values(metric, f"{SLICE}: {edit.name}", copies, mine)
    return AxisResult(axis, made, HEADLINE, values, details={"copies": counts, "rows": len(answers)})


def _values(metric: str, name: str, copies: dict[str, Column], mine: NDArray[np.bool_]) -> Iterator[Value]:
    if not mine.any():
        return
    _, place, counts = np.unique(copies["original"][mine], return_inverse=True, return_counts=True)
    means = {one: np.bincount(place, copies[one][mine]) / counts for one in ("same", "score", "original_score")}
    yield mean_value(HEADLINE, name, means["same"])
    yield mean_value(metric, name, means["score"])
    losses = means["original_score"] - means["score"]
    low, high = bootstrap(losses, bounds=(-1.0, 1.0))
    yield Value(f"{metric}_loss", name, len(losses), 100 * float(losses.mean()), 100 * low, 100 * high)


def _read(path: Path) -> dict[str, Column]:
    numbers = ["original", "same", "score", "original_score"]
    table = parquet.read_table(
        path, columns=[*numbers, SLICE], read_dictionary=[SLICE], partitioning=None
    ).unify_dictionaries()
    return {name: table[name].to_numpy() for name in (*numbers, SLICE)}
