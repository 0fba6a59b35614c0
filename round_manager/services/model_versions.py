"""Model versions as use cases: register what a registry holds, evaluate versions, and trace one back to its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from common.errors import Hint, one_line
from common.progress import Progress
from ml_backend.artefact import read_manifest
from ml_backend.errors import ModelError, RegistryError
from ml_backend.evaluation import evaluate_target, metric_of, row_scores
from ml_backend.evaluation.speed import batched_rows_per_second, spaced_indices
from ml_backend.hashing import rows_in_order
from ml_backend.manifest import Manifest
from ml_backend.registry.model_pool import Load, prepare
from ml_backend.registry.pins import Pins
from ml_backend.registry.registry import Registry
from ml_backend.registry.rotation import CONFIRM_SECONDS, rotate
from ml_backend.targets.target import Target
from round_manager.errors import ModelVersionNotFound
from round_manager.learning.guard import GuardDecision, Scores, decide
from round_manager.learning.lineage import Ancestor, lineage
from round_manager.learning.training_data import HeldOut, training_rows
from round_manager.learning.training_jobs import TrainingHeartbeat
from round_manager.learning.versions import (
    Measured,
    check_fits,
    earlier_scores,
    find_evaluation,
    find_versions,
    register_version,
    served_versions,
    store_evaluation,
    stored_scores,
)
from round_manager.models import spec_of
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.tasks import find_task
from templates import SeedRow, TaskSpec

MAX_ANCESTORS = 100
SPEED_ROWS = 64


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
        """Compare the new version with these and with the best of all that have served, on each set of rows.

        An earlier version that no longer loads is reported and does not hold up the others.
        """
        new = self._scores(spec, version, held_out)
        old: dict[str, Mapping[str, Scores]] = {}
        broken: dict[str, str] = {}
        for one in before:
            try:
                old[one] = self._scores(spec, one, held_out)
            except ModelError as error:
                broken[one] = one_line(error)
        with self.context.store.read() as session:
            served = served_versions(session, find_task(session, spec.name))
            others = [row for row in served if row.name not in (version, *before)]
            earlier = earlier_scores(session, others, held_out, metric_of(spec))
        return decide(new, old, earlier, held_out, spec.rounds.guard_points, broken)

    def _scores(self, spec: TaskSpec, version: str, held_out: Sequence[HeldOut]) -> dict[str, Scores]:
        model = _LazyModel(self.models, self.measure_memory, spec.name, version, held_out)
        found = {}
        for part in held_out:
            stored = self._stored(spec, version, part)
            found[part.sha256] = self._evaluate(spec, model, part) if stored is None else stored
        return found

    def _stored(self, spec: TaskSpec, version: str, part: HeldOut) -> Scores | None:
        with self.context.store.read() as session:
            (registered,) = find_versions(session, find_task(session, spec.name), [version])
            stored = find_evaluation(session, registered, part, metric_of(spec))
            return stored_scores(stored) if stored else None

    def _evaluate(self, spec: TaskSpec, model: "_LazyModel", part: HeldOut) -> Scores:
        self.heartbeat.start(len(part.rows), f"Evaluating {model.version} on the held-out rows of {part.name}")
        rows = rows_in_order(part.rows, spec)
        result = evaluate_target(model.target, rows, spec, self._advance)
        scores = [round(one, 4) for one in row_scores(rows, result.predictions, spec)]
        measured = Measured(result.metrics, scores, model.rows_per_second, model.memory)
        self.heartbeat.finish()
        with self.context.store.write() as session:
            (registered,) = find_versions(session, find_task(session, spec.name), [model.version])
            store_evaluation(session, registered, part, metric_of(spec), measured, now=self.context.now())
        return scores

    def _advance(self, steps: int) -> None:
        self.heartbeat.advance(steps)
        if self.heartbeat.is_cancelled():
            self.heartbeat.check()


@dataclass(frozen=True)
class _LazyModel:
    """A version that is loaded, and its process measured, when it is first needed."""

    models: ModelDeployment
    measure_memory: MeasureMemory
    task: str
    version: str
    held_out: Sequence[HeldOut]

    @cached_property
    def target(self) -> Target:
        return prepare(self.models.registry, self.models.load, self.task, self.version)

    @cached_property
    def memory(self) -> int | None:
        return self.measure_memory(self.models.registry.fetch(self.task, self.version))

    @cached_property
    def rows_per_second(self) -> list[float]:
        """The throughput of each repeat on rows of all sets: a version has one, whatever set it is measured on."""
        rows = [row.fields for part in self.held_out for row in part.rows]
        wanted = spaced_indices(len(rows), SPEED_ROWS)
        return batched_rows_per_second(self.target, [row for place, row in enumerate(rows) if place in wanted])
