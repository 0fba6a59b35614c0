"""One piece of an evaluation: a model on a data set, on several axes.

`Work` is plain data, and `perform` a function of a module, so that a cluster can run it elsewhere: models, data and
results travel through places that every machine reaches. Each axis is stored as soon as it is complete.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from common.clock import SystemClock
from common.progress import NoProgress, Progress
from ml_backend.evaluation import calibration, consistency, performance, resources, speed
from ml_backend.evaluation.answers import Answerer, Item, Pass, ScoredAnswers, TargetAnswerer, answer_pass, read_answers
from ml_backend.evaluation.consistency import ConsistencyAxis
from ml_backend.evaluation.predictions import FileAnswerer, read_predictions
from ml_backend.evaluation.values import AxisResult
from ml_backend.hashing import json_sha256
from ml_backend.targets.sources import ModelSource
from ml_backend.targets.target import Row, Target
from round_manager.evaluation.axes import AXES, steps
from round_manager.evaluation.cards import read_card_of
from round_manager.evaluation.data_sets import DataSet
from round_manager.evaluation.storage import ANSWERS, EvaluationStore, open_evaluations

PARTS = "evaluations"
RECIPE_CHARS = 12


@dataclass(frozen=True)
class Candidate:
    """A model to evaluate: its id, which follows from its content, the name people use, and how to open it.

    `predictions` is a file with its answers, for models that are not here. A model that a researcher `submitted` is
    marked as such wherever its results are.
    """

    id: str
    name: str
    kind: str
    source: ModelSource | None = None
    predictions: str = ""
    submitted: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return what is stored about the model; no path of this machine."""
        mark = {"submitted": True} if self.submitted else {}
        return {"id": self.id, "name": self.name, "kind": self.kind, **mark}


@dataclass(frozen=True)
class Work:
    """A model on a data set: the axes to measure, and where the results and unfinished answers are kept."""

    task: str
    model: Candidate
    data: DataSet
    axes: tuple[str, ...]
    place: str
    cache: str

    @property
    def steps(self) -> int:
        """How many questions it asks at most."""
        return steps(self.axes, self.data.row_count, self.data.spec)


@dataclass(frozen=True)
class Done:
    """The results of a piece of work, by axis."""

    model: str
    data: str
    results: Mapping[str, AxisResult]


def missing_axes(store: EvaluationStore, model: str, data: DataSet, axes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the axes that have no stored result of their present recipe."""
    return tuple(axis for axis in axes if stored_result(store, model, data, axis) is None)


def stored_result(store: EvaluationStore, model: str, data: DataSet, axis: str) -> AxisResult | None:
    """Return the stored result of an axis; None if there is none of its present recipe."""
    found = store.result(data.sha256, model, axis)
    if found is None:
        return None
    try:
        result = AxisResult.from_data(found)
    except (KeyError, TypeError):
        return None  # Another version of Outfox wrote it.
    current = dict(result.recipe) == AXES[axis].recipe(data.spec) and found.get("data") == data.sha256
    return result if current else None


def perform(work: Work, progress: Progress | None = None) -> Done:
    """Measure and store each axis."""
    return _Performance(work, open_evaluations(work.place, work.task), progress or NoProgress()).run()


class _Performance:
    def __init__(self, work: Work, store: EvaluationStore, progress: Progress) -> None:
        self._work = work
        self._store = store
        self._progress = progress
        self._answers: ScoredAnswers | None = None
        self._sample: list[Row] = []

    def run(self) -> Done:
        work = self._work
        self._store.store_model(work.model.id, work.model.as_data())
        if work.model.source is not None:
            self._store.store_card(work.model.id, read_card_of(Path(work.model.source.directory)))
        self._store.store_data_set(work.data.sha256, _about(work.data))
        results = {}
        for axis in work.axes:
            result = results[axis] = self._measure(axis)
            moment = SystemClock().now().isoformat()
            about = {"model": work.model.id, "data": work.data.sha256, "measured_at": moment}
            self._store.store_result(work.data.sha256, work.model.id, axis, {**result.as_data(), **about})
        return Done(work.model.id, work.data.sha256, results)

    def _measure(self, axis: str) -> AxisResult:
        model, found = self._work.model, AXES[axis]
        if found.copies:
            return self._consistency(found.copies)
        if axis == performance.AXIS:
            return performance.performance(self._scored())
        if axis == calibration.AXIS:
            return calibration.calibration(self._scored())
        if model.source is None:
            return self._without(axis, "a file of predictions cannot be asked")
        self._progress.start(0, f"Measuring the {axis} of {model.name} on {self._work.data.name}")
        result = self._of_model(axis, model.source)
        self._progress.finish()
        return result

    def _of_model(self, axis: str, source: ModelSource) -> AxisResult:
        if axis == resources.MEMORY:
            return resources.memory(source, self._rows())
        target = _opened(source)
        if axis == resources.PRICE:
            return resources.price(target, self._work.data.row_count)
        return {speed.THROUGHPUT: speed.throughput, speed.LATENCY: speed.latency}[axis](target, self._rows())

    def _without(self, axis: str, note: str) -> AxisResult:
        return AxisResult(axis, AXES[axis].recipe(self._work.data.spec), "", [], note=note)

    def _consistency(self, axis: ConsistencyAxis) -> AxisResult:
        work, spec = self._work, self._work.data.spec
        edits = consistency.task_edits(axis, spec)
        if work.model.source is None:
            found = read_predictions(Path(work.model.predictions), spec)
            if not found.predicted_edits & {one.name for one in edits}:
                return self._without(axis, f"the file has no predictions for the perturbed rows of {axis}")
        # Answers to the copies of another recipe are other files.
        name = f"{axis}-{json_sha256(dict(AXES[axis].recipe(spec)))[:RECIPE_CHARS]}"
        with (
            self._answered() as answers,
            self._store.answers(work.data.sha256, work.model.id, f"{name}.parquet") as stored,
        ):
            if stored is not None:
                return consistency.consistency(axis, stored, self._scored(), spec)
            unfinished = self._unfinished(f"-{name}")
            one_pass = consistency.copy_pass(unfinished, self._answerer(), edits, spec)
            what = f"Asking {work.model.name} about perturbed rows of {work.data.name} ({axis})"
            originals = consistency.originals(work.data.read(), answers)
            with self._run(one_pass, originals, what, f"{name}.parquet", steps=len(edits)) as path:
                return consistency.consistency(axis, path, self._scored(), spec)

    def _scored(self) -> ScoredAnswers:
        if self._answers is None:
            with self._answered() as path:
                self._answers = read_answers(path, self._work.data.spec)
        return self._answers

    @contextmanager
    def _answered(self) -> Iterator[Path]:
        """Yield the file of answers, which is stored first if it is not there."""
        work, data = self._work, self._work.data
        with self._store.answers(data.sha256, work.model.id) as stored:
            if stored is not None:
                yield stored
                return
        one_pass = answer_pass(self._unfinished(), self._answerer(), data.spec, data.slices)
        with self._run(one_pass, data.read(), f"Asking {work.model.name} about {data.name}", ANSWERS) as path:
            yield path

    def _unfinished(self, suffix: str = "") -> Path:
        return Path(self._work.cache) / PARTS / f"{self._work.model.id}-{self._work.data.sha256}{suffix}"

    @contextmanager
    def _run(self, one_pass: Pass[Item], items: Iterable[Item], what: str, name: str, steps: int = 1) -> Iterator[Path]:
        """Run a pass, store its answers under that name, and yield them as a file."""
        work = self._work
        self._progress.start(steps * work.data.row_count, what)
        one_pass.run(items, lambda done: self._progress.advance(steps * done))
        self._progress.finish()
        with TemporaryDirectory(prefix="outfox-evaluation-") as folder:
            path = Path(folder) / name
            one_pass.collect(path)
            self._store.store_answers(work.data.sha256, work.model.id, path, name)
            rmtree(one_pass.folder, ignore_errors=True)
            yield path

    def _answerer(self) -> Answerer:
        model, data = self._work.model, self._work.data
        if model.source is None:
            return FileAnswerer(Path(model.predictions), data.spec)
        return TargetAnswerer(_opened(model.source), data.spec)

    def _rows(self) -> list[Row]:
        """Return evenly spaced rows, as many of each data set."""
        if not self._sample:
            wanted = speed.spaced_indices(self._work.data.row_count, speed.ROWS)
            self._sample = [row.fields for place, row in enumerate(self._work.data.read()) if place in wanted]
        return self._sample


def close_models() -> None:
    """Close the model that was opened last; one in a sandbox keeps a process until then."""
    _opened.cache_clear()


@lru_cache(maxsize=1)
def _opened(source: ModelSource) -> Target:
    """Return the target; consecutive pieces of work often have the same model."""
    return source.open()


def _about(data: DataSet) -> dict[str, Any]:
    """Return what is stored about a data set."""
    return {
        "name": data.name,
        "kind": data.kind,
        "sha256": data.sha256,
        "rows": data.row_count,
        "slices": list(data.slices),
        "hidden": data.hidden,
        "created_at": SystemClock().now().isoformat(),
    }
