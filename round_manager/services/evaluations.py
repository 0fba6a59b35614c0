"""Evaluation as a use case: measure models on data sets, and read what is stored.

Every result is stored as soon as it is complete, so an evaluation that was killed continues where it stopped, and a
second one measures nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common.errors import Hint
from common.progress import NoProgress, Progress
from common.text import count
from ml_backend.evaluation.consistency import perturbed_copies, task_edits
from ml_backend.evaluation.metrics import confusion_metrics
from ml_backend.evaluation.performance import AXIS as PERFORMANCE
from ml_backend.evaluation.predictions import read_predictions
from ml_backend.evaluation.values import AxisResult
from outfox.stored_evaluations import worst_rounds
from round_manager.errors import DataSetNotFound, ModelsAmbiguous
from round_manager.evaluation.axes import AXES
from round_manager.evaluation.data_sets import DataSet
from round_manager.evaluation.records import keep_record, stored_rows
from round_manager.evaluation.storage import EvaluationStore, open_evaluations
from round_manager.evaluation.work import Candidate, Done, Work, missing_axes, perform, stored_result

# Performs pieces of work, and reports the progress.
Row = dict[str, str]
Run = Callable[[Sequence[Work], Progress], Iterator[Done]]


@dataclass(frozen=True)
class EvaluationOrder:
    """Which models to evaluate on which data sets and axes.

    `place` is where the archives are, `cache` a folder for unfinished work.
    """

    task: str
    models: Sequence[Candidate]
    data: Sequence[DataSet]
    axes: tuple[str, ...]
    place: str
    cache: Path

    @property
    def rounds(self) -> dict[int, str]:
        """The archives of the rounds by their numbers."""
        return {one.round: one.place for one in self.data if one.round}


@dataclass(frozen=True)
class EvaluationRow:
    """One figure, as a row of the frame that researchers get."""

    model: str
    model_id: str
    data: str
    slice: str
    axis: str
    metric: str
    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class EvaluationReport:
    """All figures that were ordered; how many results were measured and how many were stored before.

    `notes` says which figures there are not, and why. `performances` are the performance of each model on each data
    set, with its details.
    """

    rows: Sequence[EvaluationRow]
    measured: int
    cached: int
    notes: Sequence[str] = field(default_factory=tuple)
    performances: Sequence[tuple[str, AxisResult]] = field(default_factory=tuple)

    def as_data(self) -> list[dict[str, Any]]:
        """Return the rows as JSON-compatible data."""
        return [asdict(row) for row in self.rows]

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the version, if there is only one model and one data set."""
        if len(self.performances) != 1:
            return {}
        ((version, found),) = self.performances
        confusion = found.details.get("confusion")
        if confusion:
            return {"version": version, **confusion_metrics(confusion)}
        whole = [one for one in found.values if not one.slice]
        return {"version": version, "rows": whole[0].n, **{one.metric: round(one.value, 4) for one in whole}}


def rows_to_predict(data: Sequence[DataSet], axes: Sequence[str], progress: Progress | None = None) -> Iterator[Row]:
    """Yield the id and the texts of the rows, and of the perturbed copies that these axes need; no right answers.

    Raises:
        DataSetNotFound: A data set is hidden: models are scored on it, and nobody reads its rows.
    """
    for one in data:
        if one.hidden:
            raise DataSetNotFound(f"{one.name} is hidden, so that its rows cannot be read; submit the model instead")
    shown = progress or NoProgress()
    shown.start(sum(one.row_count for one in data), "Writing the rows to predict")
    for one in data:
        perturbed = (AXES[axis].copies for axis in axes)
        edits = [edit for axis in perturbed if axis for edit in task_edits(axis, one.spec)]
        for row in one.read():
            for copy in (row, *perturbed_copies(row, edits, one.spec)):
                yield {"id": copy.id, **{name: copy.fields[name] for name in one.spec.model_input}}
            shown.advance()
    shown.finish()


def evaluate_models(
    order: EvaluationOrder, *, run: Run | None = None, progress: Progress | None = None
) -> EvaluationReport:
    """Measure what is not stored yet, and return all figures.

    `run` performs the pieces of work, by default one after the other in this process; they are plain data, so another
    one may send them to a cluster. The pieces may then end in any order.

    Raises:
        PredictionsInvalid: A file of predictions does not have exactly one answer for each row.
    """
    _check_names(order.models)
    _check_predictions(order)
    store, shown = open_evaluations(order.place, order.task), progress or NoProgress()
    work = list(_missing_work(order, store))
    if work:
        questions = sum(one.steps for one in work)
        shown.start(
            questions, f"Evaluating {count(len(order.models), 'model')} on {count(len(order.data), 'data set')}"
        )
        total = _TotalProgress(shown)
        for done in (run or _one_by_one)(work, total):
            total.complete(done, work)
        shown.finish()
        for number, place in order.rounds.items():
            keep_record(place, stored_rows(place, number))
    measured = sum(len(one.axes) for one in work)
    found = [
        (model, data, axis, stored_result(store, model.id, data, axis))
        for model in order.models
        for data in order.data
        for axis in order.axes
    ]
    rows_found = [row for model, data, _, result in found if result for row in _rows(model, data, result)]
    names = {f"{model.name}, {data.name}: {result.note}" for model, data, _, result in found if result and result.note}
    every = [*rows_found, *(EvaluationRow(**one) for one in worst_rounds([asdict(row) for row in rows_found]))]
    names |= {f"{one.name}: {count(one.left_out, 'training row')} left out" for one in order.data if one.left_out}
    performances = [(model.id, one) for model, _, axis, one in found if axis == PERFORMANCE and one]
    return EvaluationReport(every, measured, len(found) - measured, sorted(names), performances)


def _one_by_one(work: Sequence[Work], progress: Progress) -> Iterator[Done]:
    return (perform(one, progress) for one in work)


def _missing_work(order: EvaluationOrder, store: EvaluationStore) -> Iterator[Work]:
    # One model after the other: each is loaded once.
    for model in order.models:
        for data in order.data:
            axes = missing_axes(store, model.id, data, order.axes)
            if axes:
                yield Work(order.task, model, data, axes, order.place, str(order.cache))


def _rows(model: Candidate, data: DataSet, result: AxisResult) -> Iterator[EvaluationRow]:
    for one in result.values:
        yield EvaluationRow(
            model.name, model.id, data.name, one.slice, result.axis, one.metric, one.n, one.value, one.low, one.high
        )


def _check_names(models: Sequence[Candidate]) -> None:
    names: dict[str, str] = {}
    for one in models:
        if names.setdefault(one.name, one.id) != one.id:
            raise ModelsAmbiguous(
                f"two models have the name {one.name}; give them names, for example a={one.name}",
                hint=Hint("describe_evaluate"),
            )


def _check_predictions(order: EvaluationOrder) -> None:
    """Read all files of predictions and their rows before anything is measured."""
    for model in order.models:
        if model.predictions:
            _check_file(Path(model.predictions), order)


def _check_file(path: Path, order: EvaluationOrder) -> None:
    known: set[str] = set()
    edits: set[str] = set()
    for data in order.data:
        found = read_predictions(path, data.spec)
        known |= found.check_rows(data.name, data.read())
        for axis in AXES.values():
            fitting = task_edits(axis.copies, data.spec) if axis.copies else ()
            edits |= {edit.name for edit in fitting}
            # All copies of an axis, or none of them.
            if axis.name in order.axes and found.predicted_edits & {edit.name for edit in fitting}:
                copies = (copy for row in data.read() for copy in perturbed_copies(row, fitting, data.spec))
                found.check_rows(f"the perturbed rows of {data.name} ({axis.name})", copies)
    found.check_unknown(known, ", ".join(one.name for one in order.data), edits)


class _TotalProgress:
    """Shows the steps of all pieces of work as one stage."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._what = ""
        self._advanced = 0
        self._completed = 0

    def start(self, total_steps: int, what: str) -> None:
        self._what = what
        self._shown.advance(0, what)

    def advance(self, steps: int = 1, note: str = "") -> None:
        self._advanced += steps
        self._shown.advance(steps, note or self._what)

    def finish(self) -> None:
        """Do nothing: the stage ends after the last piece of work."""

    def complete(self, done: Done, work: Sequence[Work]) -> None:
        """Count the steps of a piece of work that another process has done, or that needed no answers."""
        same = (one.steps for one in work if (one.model.id, one.data.sha256) == (done.model, done.data))
        self._completed += next(same)
        self.advance(max(0, self._completed - self._advanced))
