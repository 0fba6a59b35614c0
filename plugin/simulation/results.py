"""The results of a simulation, read from the database and measured on the models.

Only the working times come from the simulation itself: they are assumed, because its workers need no time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ml_backend.evaluation import evaluate_target, metric_of
from ml_backend.registry.model_pool import Load, prepare
from ml_backend.registry.registry import Registry
from round_manager.database.store import Store
from round_manager.learning.training_data import HeldOut, training_rows
from round_manager.learning.training_jobs import list_jobs
from round_manager.learning.versions import find_evaluation, find_versions
from round_manager.models import RoundStatus, spec_of
from round_manager.rates import Rate
from round_manager.tasks.rounds import list_rounds, pinned_versions
from round_manager.tasks.tasks import find_task
from round_manager.validation.costs import PaidWork, paid_work
from round_manager.validation.metrics import RoundMetrics, round_metrics
from templates import Pack, TaskSpec

HOUR = 3_600
# By version and data set, of a hundred.
Points = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of one model version on one set of rows that no model was trained on."""

    version: str
    dataset: str
    right: Rate


@dataclass(frozen=True)
class RoundResult:
    """One round: its metrics, its targets, and what people would have earned per hour."""

    metrics: RoundMetrics
    versions: tuple[str, ...]
    hourly_cents: int | None
    workers_cents: int
    training: str

    @property
    def number(self) -> int:
        """The round's number."""
        return self.metrics.number


@dataclass(frozen=True)
class Results:
    """All closed rounds, and the accuracy of every version on every set of held-out rows; oldest version first."""

    task: str
    rounds: tuple[RoundResult, ...]
    accuracies: tuple[Accuracy, ...]

    @property
    def versions(self) -> list[str]:
        """The versions in the order of their rounds."""
        return list(dict.fromkeys(one.version for one in self.accuracies))

    @property
    def datasets(self) -> list[str]:
        """The names of the sets of rows."""
        return list(dict.fromkeys(one.dataset for one in self.accuracies))

    def description(self, version: str) -> str:
        """Return the version, and the rounds in which it was the target."""
        played = [str(one.number) for one in self.rounds if version in one.versions]
        return f"{version}, target of round {', '.join(played)}" if played else f"{version}, the newest"

    def accuracy(self, version: str, dataset: str) -> Rate:
        """Return the accuracy of one version on one set of rows."""
        return next(one.right for one in self.accuracies if (one.version, one.dataset) == (version, dataset))


def find_results(store: Store, registry: Registry, load: Load, pack: Pack, seconds: Mapping[str, float]) -> Results:
    """Return the results; `seconds` are those that a person would have needed, by assignment id."""
    name = pack.spec.name
    with store.read() as session:
        task = find_task(session, name)
        spec = spec_of(task)
        over = [one for one in list_rounds(session, task) if one.status is RoundStatus.CLOSED]
        jobs = {job.round_id: job for job in reversed(list_jobs(session, task, 10 * len(over)))}
        rounds = tuple(
            RoundResult(
                round_metrics(session, one),
                pinned_versions(session, one),
                _hourly_cents(paid_work(session, one), seconds),
                sum(work.cents for work in paid_work(session, one)),
                (jobs[one.id].reason or jobs[one.id].state.value) if one.id in jobs else "no model was trained",
            )
            for one in over
        )
        held_out = training_rows(session, task, spec, pack.seed).held_out if over else ()
        played = [version for one in rounds for version in one.versions]
        versions = list(dict.fromkeys([*played, *registry.versions(name)[:1]]))
    kept = _kept(store, spec, versions, held_out)
    return Results(name, rounds, tuple(_measured(registry, load, spec, versions, held_out, kept)))


def _hourly_cents(works: Sequence[PaidWork], seconds: Mapping[str, float]) -> int | None:
    """Return the median over all assignments with a known time."""
    known = [work.cents * HOUR / seconds[work.assignment] for work in works if seconds.get(work.assignment)]
    return round(median(known)) if known else None


def _kept(store: Store, spec: TaskSpec, versions: Sequence[str], held_out: Sequence[HeldOut]) -> Points:
    """Return the stored evaluations of the same files on the same rows."""
    found = {}
    with store.read() as session:
        for version in find_versions(session, find_task(session, spec.name), versions):
            for part in held_out:
                kept = find_evaluation(session, version, part, metric_of(spec))
                if kept is not None:
                    found[version.name, part.name] = 100 * kept.performance
    return found


def _measured(
    registry: Registry,
    load: Load,
    spec: TaskSpec,
    versions: Sequence[str],
    held_out: Sequence[HeldOut],
    kept: Points,
) -> list[Accuracy]:
    """Yield the accuracy of every version on every set of rows; only what is not stored yet is measured now."""
    found = []
    for version in versions:
        asked = [part for part in held_out if (version, part.name) not in kept]
        predictor = prepare(registry, load, spec.name, version) if asked else None
        for part in held_out:
            points = kept.get((version, part.name))
            if points is None and predictor is not None:
                points = evaluate_target(predictor, part.rows, spec).points
            right = round((points or 0.0) * len(part.rows) / 100)
            found.append(Accuracy(version, part.name, Rate(right, len(part.rows))))
    return found
