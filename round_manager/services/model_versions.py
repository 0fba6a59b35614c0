"""Model versions as use cases: register what a registry holds, evaluate versions, and trace one back to its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from common.errors import Hint, one_line
from common.progress import Progress
from ml_backend.artefact import read_manifest
from ml_backend.errors import ModelError, RegistryError
from ml_backend.evaluation import evaluate_target, metric_of
from ml_backend.manifest import Manifest
from ml_backend.registry.model_pool import Load, prepare
from ml_backend.registry.pins import Pins
from ml_backend.registry.registry import Registry
from ml_backend.registry.rotation import CONFIRM_SECONDS, rotate
from ml_backend.targets.target import Target
from round_manager.errors import ModelVersionNotFound
from round_manager.learning.lineage import Ancestor, lineage
from round_manager.learning.training_data import HeldOut, training_rows
from round_manager.learning.training_jobs import TrainingHeartbeat
from round_manager.learning.versions import (
    GuardDecision,
    VersionComparison,
    check_fits,
    find_evaluation,
    find_versions,
    register_version,
    store_evaluation,
)
from round_manager.models import spec_of
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.tasks import find_task
from templates import SeedRow, TaskSpec

MAX_ANCESTORS = 100


@dataclass(frozen=True)
class ModelDeployment:
    """Where model versions are kept and how they are deployed: the registry, its address, and a loader.

    `timeout` is how many seconds serving processes have to confirm a version.
    """

    registry: Registry
    uri: str
    load: Load
    timeout: float = CONFIRM_SECONDS
    progress: Progress | None = None

    def rotate(
        self,
        actor: Actor,
        task: str,
        versions: Sequence[str],
        *,
        round: int | None = None,
        reason: str,
        before_pinning: Callable[[], None] = lambda: None,
    ) -> Pins:
        """Pin the versions, and return when every serving process answers with them."""
        return rotate(
            self.registry,
            task,
            versions,
            round=round,
            load=self.load,
            timeout=self.timeout,
            progress=self.progress,
            who=actor.name,
            why=reason,
            before_pinning=before_pinning,
        )


def register_versions(
    context: ServiceContext,
    models: ModelDeployment,
    task: str,
    versions: Sequence[str],
    spec: TaskSpec | None = None,
) -> None:
    """Register versions in the database, parents first; all or none, safe to repeat.

    With a spec, raise ModelVersionMismatch unless each of them fits it.
    """
    lines = [_ancestry(models.registry, task, version) for version in versions]
    if spec is not None:
        for line in lines:
            check_fits(spec, line[-1])
    with context.store.write() as session:
        row = find_task(session, task)
        for manifest in (one for line in lines for one in line):
            uri = f"{models.uri.rstrip('/')}/{task}/{manifest.version}"
            register_version(session, row, manifest, uri, now=context.now())


def trace_versions(
    context: ServiceContext, registry: Registry, task: str, version: str | None = None
) -> list[list[Ancestor]]:
    """Return the lineage of a version, by default of each version that serves now."""
    with context.store.read() as session:
        found = find_task(session, task)
        chosen = [version] if version else _serving(registry, task)
        return [lineage(session, found, one, lambda name: _manifest(registry, task, name)) for one in chosen]


def changed_sources(
    context: ServiceContext, task: str, seed: Sequence[SeedRow], versions: Sequence[Ancestor]
) -> list[str]:
    """Return the sources whose rows have another hash now than when the versions were trained."""
    changed = dict[str, None]()
    with context.store.read() as session:
        row = find_task(session, task)
        for version in (one for one in versions if one.rounds):
            current = training_rows(session, row, spec_of(row), seed, up_to=max(version.rounds))
            hashes = {"seed" if one.round is None else f"round {one.round}": one.sha256 for one in current.sources}
            changed |= {one.source: None for one in version.learned if hashes.get(one.source) != one.sha256}
    return list(changed)


def _serving(registry: Registry, task: str) -> Sequence[str]:
    pins = registry.pins(task)
    if pins is None:
        hint = Hint("list_models", task=task)
        raise ModelVersionNotFound(f"no version of {task} serves yet; name a version", hint=hint)
    return pins.versions


def _manifest(registry: Registry, task: str, version: str) -> Manifest | None:
    """Return the manifest of a version; None if the registry has no complete one."""
    try:
        return read_manifest(registry.fetch(task, version))
    except ModelError:
        return None


def _ancestry(registry: Registry, task: str, version: str) -> list[Manifest]:
    """Return the version's manifest after those of its parents, as far back as the registry still has them."""
    line = [read_manifest(registry.fetch(task, version))]
    while line[0].parent and len(line) < MAX_ANCESTORS:
        try:
            line.insert(0, read_manifest(registry.fetch(task, line[0].parent)))
        except (ModelError, RegistryError) as error:
            if error.retry:  # A parent that is only unreachable now must not be left out.
                raise
            break
    return line


MeasureMemory = Callable[[Path], int | None]


@dataclass(frozen=True)
class Evaluator:
    """Evaluates versions of a registry and stores the results, one set of rows after the other."""

    context: ServiceContext
    models: ModelDeployment
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
        model = _LazyModel(self.models, self.measure_memory, spec.name, version)
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

    models: ModelDeployment
    measure_memory: MeasureMemory
    task: str
    version: str

    @cached_property
    def target(self) -> Target:
        return prepare(self.models.registry, self.models.load, self.task, self.version)

    @cached_property
    def memory(self) -> int | None:
        return self.measure_memory(self.models.registry.fetch(self.task, self.version))


def _in_points(performance: float) -> float:
    return round(100 * performance, 4)
