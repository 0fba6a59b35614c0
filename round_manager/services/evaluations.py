"""Evaluations as a use case: versions are measured on everything that is held out, each once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from common.errors import one_line
from ml_backend.errors import ModelError
from ml_backend.evaluation import evaluate_target, metric_of
from ml_backend.registry.model_pool import Load, prepare
from ml_backend.registry.registry import Registry
from ml_backend.targets.target import Target
from round_manager.learning.evaluations import GuardDecision, VersionComparison, find_evaluation, store_evaluation
from round_manager.learning.heartbeat import TrainingHeartbeat
from round_manager.learning.rows import HeldOut
from round_manager.learning.versions import find_versions
from round_manager.services.context import ServiceContext
from round_manager.tasks.tasks import find_task
from templates import TaskSpec

MeasureMemory = Callable[[Path], int | None]


@dataclass(frozen=True)
class Evaluator:
    """Evaluates versions of a registry and stores the results, one set of rows after the other."""

    context: ServiceContext
    registry: Registry
    load: Load
    measure_memory: MeasureMemory
    heartbeat: TrainingHeartbeat

    def compare(
        self, spec: TaskSpec, version: str, before: Sequence[str], held_out: Sequence[HeldOut]
    ) -> GuardDecision:
        """Compare the new version with the best of the earlier ones on each set of rows.

        An earlier version that no longer loads is reported and does not hold up the others.
        """
        new = self._points(spec, version, held_out)
        old: list[list[float]] = []
        broken: dict[str, str] = {}
        for one in before:
            try:
                old.append(self._points(spec, one, held_out))
            except ModelError as error:
                broken[one] = one_line(error)
        comparisons = []
        for place, part in enumerate(held_out):
            best = max((points[place] for points in old), default=None)
            comparisons.append(VersionComparison(part.name, len(part.rows), best, new[place]))
        return GuardDecision(comparisons, spec.rounds.guard_points, broken)

    def _points(self, spec: TaskSpec, version: str, held_out: Sequence[HeldOut]) -> list[float]:
        model = _LazyModel(self.registry, self.load, self.measure_memory, spec.name, version)
        points = []
        for part in held_out:
            stored = self._stored(spec, version, part)
            points.append(self._evaluate(spec, model, part) if stored is None else stored)
        return points

    def _stored(self, spec: TaskSpec, version: str, part: HeldOut) -> float | None:
        with self.context.store.read() as session:
            (registered,) = find_versions(session, find_task(session, spec.name), [version])
            stored = find_evaluation(session, registered, part, metric_of(spec))
            return _in_points(stored.performance) if stored else None

    def _evaluate(self, spec: TaskSpec, model: "_LazyModel", part: HeldOut) -> float:
        self.heartbeat.start(len(part.rows), f"Evaluating {model.version} on the held-out rows of {part.name}")
        result = evaluate_target(model.target, part.rows, spec, self._advance)
        memory = model.memory
        self.heartbeat.finish()
        with self.context.store.write() as session:
            (registered,) = find_versions(session, find_task(session, spec.name), [model.version])
            now = self.context.now()
            stored = store_evaluation(session, registered, part, result, memory_bytes=memory, now=now)
            return _in_points(stored.performance)

    def _advance(self, steps: int) -> None:
        self.heartbeat.advance(steps)
        if self.heartbeat.is_cancelled():
            self.heartbeat.check()


@dataclass(frozen=True)
class _LazyModel:
    """A version that is loaded, and its memory measured, when it is first needed."""

    registry: Registry
    load: Load
    measure_memory: MeasureMemory
    task: str
    version: str

    @cached_property
    def target(self) -> Target:
        return prepare(self.registry, self.load, self.task, self.version)

    @cached_property
    def memory(self) -> int | None:
        return self.measure_memory(self.registry.fetch(self.task, self.version))


def _in_points(performance: float) -> float:
    return round(100 * performance, 4)
