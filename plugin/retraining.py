"""Retraining: the next version from all that was collected, measured against the one that answers, then rotated in.

Each step can be done again: whoever was killed between two of them runs it again, and comes to the same end. A version
that was trained is found again, what was measured is kept, and until the rotation the live model is what it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.clock import Clock
from common.errors import one_line
from ml_backend.artefact import read_manifest
from ml_backend.errors import ModelError, TrainingCancelled
from ml_backend.registry.errors import RegistryError
from ml_backend.registry.model_loader import Load
from ml_backend.registry.registry import Registry
from ml_backend.registry.rotation import rotate
from plugin.heartbeat import Heartbeat
from plugin.measuring import Measuring
from plugin.version_registration import VersionRegistration
from plugin.workshop import Order, Workshop
from round_manager.audit import note
from round_manager.database.store import Store
from round_manager.errors import ModelVersionError, NothingToLearn
from round_manager.learning.acceptance import Acceptance
from round_manager.learning.jobs import DIED, Trainer, begin, bury, finish, list_jobs, pass_over, training_turn
from round_manager.learning.rows import TrainingRows, training_rows
from round_manager.learning.versions import check_fits, find_versions
from round_manager.models import TrainingState
from round_manager.progress import Progress, Unwatched
from round_manager.specs import spec_of
from round_manager.tasks.rounds import pinned_versions
from round_manager.tasks.tasks import find_task
from templates import Pack


@dataclass(frozen=True)
class Retrained:
    """What came of it: the new version, those that answered before, and whether it answers now."""

    task: str
    round: int
    version: str
    before: tuple[str, ...]
    state: TrainingState
    acceptance: Acceptance
    data: TrainingRows

    @property
    def rotated(self) -> bool:
        """Whether the new version answers."""
        return self.state is TrainingState.ROTATED


@dataclass(frozen=True)
class _Job:
    """A training that has begun."""

    id: int
    order: Order
    made: Path | None
    data: TrainingRows
    trainer: Trainer
    why: str

    @property
    def task(self) -> str:
        return self.order.pack.spec.name


@dataclass(frozen=True)
class Retraining:
    """Makes the next versions of a store's tasks; `where` is the registry's address, `weigh` tells a model's memory."""

    store: Store
    registry: Registry
    where: str
    workshop: Workshop
    load: Load
    clock: Clock
    timeout: float
    progress: Progress | None = None
    weigh: Callable[[Path], int | None] = lambda directory: None
    beat_every: float = 2.0

    def retrain(self, pack: Pack, *, mode: str | None, trainer: Trainer, why: str) -> Retrained:
        """The task's next version, trained, measured and, unless it loses too much, rotated in.

        Only one training of a task runs at a time. Until the rotation, and after any error, all else is as it was. A
        round that teaches nothing is passed over, and NothingToLearn says why.
        """
        name = pack.spec.name
        with training_turn(self.store, name):
            with self.store.write() as session:
                bury(session, find_task(session, name), DIED, now=self.clock.now())
            order, data = self._order(pack, mode, trainer)
            checked = self.workshop.check(order)
            with self.store.write() as session:
                task = find_task(session, name)
                job = begin(session, task, data.last, checked.mode, trainer, now=self.clock.now())
            begun = _Job(job.id, order, checked.made, data, trainer, why)
            watcher = self.progress or Unwatched()
            with Heartbeat(self.store, job.id, self.clock, watcher, self.beat_every) as heart:
                return self._watched(begun, heart)

    def _order(self, pack: Pack, mode: str | None, trainer: Trainer) -> tuple[Order, TrainingRows]:
        try:
            with self.store.read() as session:
                task = find_task(session, pack.spec.name)
                # What the task is stands in the database; of the pack, only its seed is read.
                current = replace(pack, spec=spec_of(task))
                data = training_rows(session, task, current.spec, current.seed)
        except NothingToLearn as nothing:
            # Trying again teaches no more: without this the next round would wait for ever.
            with self.store.write() as session:
                found = find_task(session, pack.spec.name)
                pass_over(session, found, str(nothing), who=trainer.who, now=self.clock.now())
            raise
        return Order(current, data.rows, data.sources, mode), data

    def _watched(self, job: _Job, heart: Heartbeat) -> Retrained:
        """The steps; whatever ends them early is told with the job."""
        try:
            return self._steps(job, heart)
        except TrainingCancelled:
            self._end(job, TrainingState.CANCELLED, "somebody cancelled it; nothing changed")
            raise
        except Exception as error:
            self._end(job, TrainingState.FAILED, one_line(error), retry=bool(getattr(error, "retry", False)))
            raise
        except BaseException:
            self._end(job, TrainingState.STOPPED, "its process was told to end; nothing changed")
            raise

    def _steps(self, job: _Job, heart: Heartbeat) -> Retrained:
        directory = job.made or self.workshop.train(job.order, heart, heart.unwanted)
        heart.check()
        version = self.registry.publish(directory)
        self._registration.register(job.task, [version], job.order.pack.spec)
        before, acceptance = self._compared(job, version, heart)
        if not acceptance.accepted and self._pinned(job.task) != (version,):
            return self._done(job, TrainingState.REFUSED, version, before, acceptance)
        self._rotate(job, version, heart)
        return self._done(job, TrainingState.ROTATED, version, before, acceptance)

    @property
    def _registration(self) -> VersionRegistration:
        return VersionRegistration(self.store, self.registry, self.where, self.clock)

    def _compared(self, job: _Job, version: str, heart: Heartbeat) -> tuple[tuple[str, ...], Acceptance]:
        """The versions that answer, and the new one measured against them and those of the last round.

        Again where others took over meanwhile.
        """
        spec, opponents = job.order.pack.spec, self._opponents(job)
        measuring = Measuring(self.store, self.registry, self.load, self.weigh, self.clock, heart)
        while True:
            before = self._answering(job, version)
            others = [one for one in dict.fromkeys((*before, *opponents)) if one != version]
            fitting, unfit = self._comparable(job, others)
            acceptance = measuring.compare(spec, version, fitting, job.data.held_out)
            heart.check()
            if self._answering(job, version) == before:
                return before, replace(acceptance, not_compared={**unfit, **acceptance.not_compared})

    def _opponents(self, job: _Job) -> tuple[str, ...]:
        """Those that the last round was played against: a round can pin others than the task does."""
        with self.store.read() as session:
            return pinned_versions(session, job.data.last)

    def _pinned(self, name: str) -> tuple[str, ...]:
        pins = self.registry.pin_set(name).own(None)
        return pins.versions if pins else ()

    def _answering(self, job: _Job, version: str) -> tuple[str, ...]:
        """The versions that answer, or those that did before a rotation that was not finished."""
        pinned = self._pinned(job.task)
        if pinned != (version,):
            return pinned
        change = self.registry.pin_set(job.task).before(None)
        return change.versions if change else ()

    def _comparable(self, job: _Job, versions: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Those that are whole, and read and answer what the task does now; and why the others are not measured."""
        found, unfit = [], {}
        for version in versions:
            try:
                check_fits(job.order.pack.spec, read_manifest(self.registry.fetch(job.task, version)))
                self._registration.register(job.task, [version])
            except (ModelError, ModelVersionError, RegistryError) as error:
                if error.retry:
                    raise
                unfit[version] = one_line(error)
            else:
                found.append(version)
        return found, unfit

    def _rotate(self, job: _Job, version: str, heart: Heartbeat) -> None:
        if self._pinned(job.task) == (version,) and self._was_rotated(job, version):
            return
        rotate(
            self.registry,
            job.task,
            [version],
            load=self.load,
            timeout=self.timeout,
            progress=heart,
            who=job.trainer.who,
            why=job.why or f"trained on rounds up to {job.data.last.number}",
            last_word=heart.seal,
        )

    def _was_rotated(self, job: _Job, version: str) -> bool:
        """Whether a training before this one saw to the end that every process answers with the version."""
        with self.store.read() as session:
            task = find_task(session, job.task)
            registered = find_versions(session, task, [version])[0]
            ends = [(one.state, one.model_version_id) for one in list_jobs(session, task)]
        return (TrainingState.ROTATED, registered.id) in ends

    def _done(
        self, job: _Job, state: TrainingState, version: str, before: tuple[str, ...], acceptance: Acceptance
    ) -> Retrained:
        reason, figures, now = acceptance.reason(), acceptance.record(), self.clock.now()
        with self.store.write() as session:
            task = find_task(session, job.task)
            registered = find_versions(session, task, [version])[0]
            finish(session, job.id, state, reason, now=now, version=registered, figures=figures)
            after = {"versions": [version] if state is TrainingState.ROTATED else list(before), "figures": figures}
            note(
                session,
                state.value,
                registered,
                who=job.trainer.who,
                why=f"{job.why}: {reason}" if job.why else reason,
                now=now,
                of=job.data.last,
                before={"versions": list(before)},
                after=after,
            )
        return Retrained(job.task, job.data.last.number, version, before, state, acceptance, job.data)

    def _end(self, job: _Job, state: TrainingState, reason: str, *, retry: bool = False) -> None:
        with self.store.write() as session:
            finish(session, job.id, state, reason, now=self.clock.now(), retry=retry)
