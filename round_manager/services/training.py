"""Training as a use case: train the next version, evaluate it against the one that serves, and rotate it in.

Each step can be repeated: a process that was killed between two of them is run again and reaches the same end. A
trained version is found again, evaluations are stored, and until the rotation the serving model is unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import one_line
from common.progress import NoProgress, Progress
from ml_backend.artefact import read_manifest
from ml_backend.errors import ModelError, RegistryError, TrainingCancelled
from round_manager.audit import note
from round_manager.errors import ModelVersionError, NothingToLearn
from round_manager.jobs import JobOwner
from round_manager.learning import training_jobs
from round_manager.learning.guard import GuardDecision
from round_manager.learning.training_data import ModelTrainer, TrainingOrder, TrainingRows, skip_round, training_rows
from round_manager.learning.training_jobs import TrainingHeartbeat
from round_manager.learning.versions import check_fits, find_versions
from round_manager.models import TrainingState, spec_of
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.evaluation_records import record_rounds
from round_manager.services.model_versions import Evaluator, MeasureMemory, ModelDeployment, register_versions
from round_manager.tasks.rounds import pinned_versions
from round_manager.tasks.tasks import find_task
from templates import Pack


@dataclass(frozen=True)
class TrainingPorts:
    """What a training needs besides the database."""

    models: ModelDeployment
    trainer: ModelTrainer
    measure_memory: MeasureMemory = lambda directory: None
    heartbeat_seconds: float = training_jobs.HEARTBEAT_SECONDS


@dataclass(frozen=True)
class RetrainingResult:
    """The new version, those that served before, and whether the new one serves now."""

    task: str
    round: int
    version: str
    before: tuple[str, ...]
    state: TrainingState
    decision: GuardDecision
    data: TrainingRows

    @property
    def rotated(self) -> bool:
        """Whether the new version serves."""
        return self.state is TrainingState.ROTATED


@dataclass(frozen=True)
class TrainingRun:
    """A training whose job has started."""

    context: ServiceContext
    actor: Actor
    ports: TrainingPorts
    order: TrainingOrder
    data: TrainingRows
    job_id: int
    reason: str
    heartbeat: TrainingHeartbeat

    @property
    def task(self) -> str:
        return self.order.pack.spec.name

    def run(self, existing: Path | None) -> RetrainingResult:
        """Run the steps; record whatever ends them early."""
        try:
            return self._steps(existing)
        except TrainingCancelled:
            self._end(TrainingState.CANCELLED, "cancelled; nothing changed")
            raise
        except Exception as error:
            self._end(TrainingState.FAILED, one_line(error), retry=bool(getattr(error, "retry", False)))
            raise
        except BaseException:
            self._end(TrainingState.STOPPED, "stopped; nothing changed")
            raise

    def _steps(self, existing: Path | None) -> RetrainingResult:
        directory = existing or self.ports.trainer.train(self.order, self.heartbeat, self.heartbeat.is_cancelled)
        self.heartbeat.check()
        version = self.ports.models.registry.publish(directory)
        self._register(version, fits=True)
        before, decision = self._compare(version)
        if not decision.accepted and self._pinned() != (version,):
            return self._finish(TrainingState.REFUSED, version, before, decision)
        self._rotate(version)
        return self._finish(TrainingState.ROTATED, version, before, decision)

    def _register(self, version: str, *, fits: bool = False) -> None:
        spec = self.order.pack.spec if fits else None
        register_versions(self.context, self.ports.models, self.task, [version], spec)

    def _compare(self, version: str) -> tuple[tuple[str, ...], GuardDecision]:
        """Return the versions that serve, and the comparison of the new one with them and with the last round's.

        Repeated where other versions were rotated in meanwhile.
        """
        spec, opponents = self.order.pack.spec, self._opponents()
        evaluator = Evaluator(self.context, self.ports.models, self.ports.measure_memory, self.heartbeat)
        while True:
            before = self._serving_before(version)
            others = [one for one in dict.fromkeys((*before, *opponents)) if one != version]
            fitting, unfit = self._comparable(others)
            decision = evaluator.compare(spec, version, fitting, self.data.held_out)
            self.heartbeat.check()
            if self._serving_before(version) == before:
                return before, replace(decision, not_compared={**unfit, **decision.not_compared})

    def _opponents(self) -> tuple[str, ...]:
        """Return the versions of the last round: a round can pin others than the task does."""
        with self.context.store.read() as session:
            return pinned_versions(session, self.data.last)

    def _pinned(self) -> tuple[str, ...]:
        pins = self.ports.models.registry.pin_set(self.task).own(None)
        return pins.versions if pins else ()

    def _serving_before(self, version: str) -> tuple[str, ...]:
        """Return the versions that serve, or those that served before an unfinished rotation to the new one."""
        pinned = self._pinned()
        if pinned != (version,):
            return pinned
        change = self.ports.models.registry.pin_set(self.task).before(None)
        return change.versions if change else ()

    def _comparable(self, versions: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Return the complete versions that fit the task as it is now, and why the others are not evaluated."""
        fitting, unfit = [], {}
        for version in versions:
            try:
                check_fits(self.order.pack.spec, read_manifest(self.ports.models.registry.fetch(self.task, version)))
                self._register(version)
            except (ModelError, ModelVersionError, RegistryError) as error:
                if error.retry:
                    raise
                unfit[version] = one_line(error)
            else:
                fitting.append(version)
        return fitting, unfit

    def _rotate(self, version: str) -> None:
        if self._pinned() == (version,) and self._was_rotated(version):
            return
        replace(self.ports.models, progress=self.heartbeat).rotate(
            self.actor,
            self.task,
            [version],
            reason=self.reason or f"trained on rounds up to {self.data.last.number}",
            before_pinning=self.heartbeat.seal,
        )

    def _was_rotated(self, version: str) -> bool:
        """Return whether an earlier training completed the rotation to this version."""
        with self.context.store.read() as session:
            task = find_task(session, self.task)
            registered = find_versions(session, task, [version])[0]
            ends = [(one.state, one.model_version_id) for one in training_jobs.list_jobs(session, task)]
        return (TrainingState.ROTATED, registered.id) in ends

    def _finish(
        self, state: TrainingState, version: str, before: tuple[str, ...], decision: GuardDecision
    ) -> RetrainingResult:
        # Before the end is recorded: a training that is killed here is run again.
        record_rounds(self.context, self.task)
        reason, figures, now = decision.reason(), decision.record(), self.context.now()
        with self.context.store.write() as session:
            task = find_task(session, self.task)
            registered = find_versions(session, task, [version])[0]
            training_jobs.finish_job(session, self.job_id, state, reason, now=now, version=registered, figures=figures)
            after = {"versions": [version] if state is TrainingState.ROTATED else list(before), "figures": figures}
            note(
                session,
                state.value,
                registered,
                actor=self.actor.name,
                reason=f"{self.reason}: {reason}" if self.reason else reason,
                now=now,
                of=self.data.last,
                before={"versions": list(before)},
                after=after,
            )
        return RetrainingResult(self.task, self.data.last.number, version, before, state, decision, self.data)

    def _end(self, state: TrainingState, reason: str, *, retry: bool = False) -> None:
        with self.context.store.write() as session:
            training_jobs.finish_job(session, self.job_id, state, reason, now=self.context.now(), retry=retry)


def retrain(
    context: ServiceContext,
    actor: Actor,
    pack: Pack,
    ports: TrainingPorts,
    *,
    mode: str | None = None,
    reason: str = "",
    token: str | None = None,
    progress: Progress | None = None,
) -> RetrainingResult:
    """Train the task's next version, evaluate it and, unless it loses too much, rotate it in.

    Only one training of a task runs at a time. Until the rotation, and after any error, everything else is unchanged.

    Raises:
        TrainingBusy: Another process trains the task.
        TrainingEnded: The training with this token is over.
        NothingToLearn: The last closed round has no new rows; it is recorded as skipped.
        TrainingCancelled: A user cancelled the training.
    """
    name, owner = pack.spec.name, JobOwner.this_process(actor.name, token)
    with training_jobs.training_lock(context.store, name):
        with context.store.write() as session:
            task = find_task(session, name)
            training_jobs.check_token(session, task, owner.token)
            training_jobs.fail_dead_job(session, task, training_jobs.DIED, now=context.now())
        order, data = _order(context, actor, pack, mode)
        plan = ports.trainer.plan(order)
        with context.store.write() as session:
            task = find_task(session, name)
            job = training_jobs.start_job(session, task, data.last, plan.mode, owner, now=context.now())
        shown, seconds = progress or NoProgress(), ports.heartbeat_seconds
        with TrainingHeartbeat(context.store, job.id, context.clock, shown, seconds) as heartbeat:
            return TrainingRun(context, actor, ports, order, data, job.id, reason, heartbeat).run(plan.existing)


def _order(context: ServiceContext, actor: Actor, pack: Pack, mode: str | None) -> tuple[TrainingOrder, TrainingRows]:
    try:
        with context.store.read() as session:
            task = find_task(session, pack.spec.name)
            # The database defines the task; of the pack, only the seed is read.
            current = replace(pack, spec=spec_of(task))
            data = training_rows(session, task, current.spec, current.seed)
    except NothingToLearn as nothing:
        # A retry would find nothing new either; without this the next round would wait for ever.
        with context.store.write() as session:
            found = find_task(session, pack.spec.name)
            skip_round(session, found, str(nothing), actor=actor.name, now=context.now())
        raise
    return TrainingOrder(current, data.rows, data.sources, mode), data
