"""Measuring: versions examined on everything that is held out, by the very files that answer, each once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from common.clock import Clock
from common.errors import one_line
from ml_backend.errors import ModelError
from ml_backend.evaluation import evaluate_target, metric_of
from ml_backend.registry.model_loader import Load, prepare
from ml_backend.registry.registry import Registry
from ml_backend.targets.target import Target
from plugin.heartbeat import Heartbeat
from round_manager.database.store import Store
from round_manager.learning.acceptance import Acceptance, Comparison
from round_manager.learning.evaluating import keep_evaluation, kept_evaluation
from round_manager.learning.rows import HeldOut
from round_manager.learning.versions import find_versions
from round_manager.tasks.tasks import find_task
from templates import TaskSpec

Weigh = Callable[[Path], int | None]


@dataclass(frozen=True)
class Measuring:
    """Examines versions of a registry and keeps what came out, one set of rows after the other."""

    store: Store
    registry: Registry
    load: Load
    weigh: Weigh
    clock: Clock
    heart: Heartbeat

    def compare(self, spec: TaskSpec, version: str, before: Sequence[str], held_out: Sequence[HeldOut]) -> Acceptance:
        """The new version against the best of those before it, on each set of rows.

        One of before that does not load any more is told, and holds nobody up.
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
            comparisons.append(Comparison(part.name, len(part.rows), best, new[place]))
        return Acceptance(comparisons, spec.rounds.guard_points, broken)

    def _points(self, spec: TaskSpec, version: str, held_out: Sequence[HeldOut]) -> list[float]:
        model = _Model(self.registry, self.load, self.weigh, spec.name, version)
        found = []
        for part in held_out:
            kept = self._kept(spec, version, part)
            found.append(self._examined(spec, model, part) if kept is None else kept)
        return found

    def _kept(self, spec: TaskSpec, version: str, part: HeldOut) -> float | None:
        with self.store.read() as session:
            (registered,) = find_versions(session, find_task(session, spec.name), [version])
            kept = kept_evaluation(session, registered, part, metric_of(spec))
            return _in_points(kept.performance) if kept else None

    def _examined(self, spec: TaskSpec, model: "_Model", part: HeldOut) -> float:
        self.heart.start(len(part.rows), f"{model.version} is measured on the held-out rows of {part.name}")
        examined = evaluate_target(model.predictor, part.rows, spec, self._advance)
        memory = model.memory
        self.heart.finish()
        with self.store.write() as session:
            (registered,) = find_versions(session, find_task(session, spec.name), [model.version])
            kept = keep_evaluation(session, registered, part, examined, memory_bytes=memory, now=self.clock.now())
            return _in_points(kept.performance)

    def _advance(self, steps: int) -> None:
        self.heart.advance(steps)
        if self.heart.unwanted():
            self.heart.check()


@dataclass(frozen=True)
class _Model:
    """A version that is loaded and weighed when it is first needed, and then no more."""

    registry: Registry
    load: Load
    weigh: Weigh
    task: str
    version: str

    @cached_property
    def predictor(self) -> Target:
        return prepare(self.registry, self.load, self.task, self.version)

    @cached_property
    def memory(self) -> int | None:
        return self.weigh(self.registry.fetch(self.task, self.version))


def _in_points(performance: float) -> float:
    return round(100 * performance, 4)
