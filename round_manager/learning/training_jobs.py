"""Training jobs as the database records them: one at a time for each task, visible to every process.

The process that trains holds the task's lock, which the kernel or PostgreSQL releases when the process dies. So the
holder of the lock knows that a job still recorded as running belongs to a dead process. The row shows the progress to
others and carries their request to cancel; a job ends only once, so a process that lost its lock cannot end another's.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.errors import Hint
from common.progress import Progress
from ml_backend.errors import TrainingCancelled
from round_manager.database.store import Store, process_lock
from round_manager.errors import (
    DuplicateError,
    NoTraining,
    RoundManagerError,
    TrainingBusy,
    TrainingEnded,
    TrainingTooLate,
)
from round_manager.jobs import JobOwner, is_dead
from round_manager.learning.training_data import closed_rounds, pending_training
from round_manager.models import ModelVersion, Round, Task, TrainingJob, TrainingState
from round_manager.tasks.tasks import find_task

DIED = "the process died without reporting an end: it was killed, ran out of memory, or its machine went down"
MAX_TEXT = 200
# A live training sends a heartbeat every few seconds.
HEARTBEAT_TIMEOUT = timedelta(minutes=1)
# Two heartbeats and a margin: a job heard from this recently is alive, wherever it runs.
FRESH = timedelta(seconds=5)


@dataclass(frozen=True)
class JobProgress:
    """The progress of a job: its stage and the steps done; `total` is 0 where it is unknown."""

    stage: str = ""
    steps: int = 0
    total: int = 0
    note: str = ""


@contextmanager
def training_lock(store: Store, name: str) -> Iterator[None]:
    """Hold the task's training lock until the end of the block; raise TrainingBusy if another process holds it."""

    def refuse() -> None:
        with store.read() as session:
            job = running_job(session, find_task(session, name))
        by = f" by {job.started_by} since {job.started_at:%Y-%m-%d %H:%M} UTC" if job else ""
        raise TrainingBusy(f"a model of {name} is already being trained{by}", hint=Hint("list_trainings", task=name))

    with process_lock(store, f"training-{name}", refuse):
        yield


def start_job(session: Session, task: Task, round: Round, mode: str, owner: JobOwner, *, now: datetime) -> TrainingJob:
    """Record the job of the process that holds the task's lock; a dead process's job is recorded as failed."""
    fail_dead_job(session, task, DIED, now=now)
    job = TrainingJob(
        task_id=task.id,
        round_id=round.id,
        mode=mode,
        started_by=owner.actor,
        host=owner.host,
        pid=owner.pid,
        token=owner.token,
        started_at=now,
        beat_at=now,
    )
    try:
        with session.begin_nested():
            session.add(job)
    except DuplicateError as error:
        raise TrainingBusy(f"a model of {task.name} is already being trained") from error
    return job


def check_token(session: Session, task: Task, token: str) -> None:
    """Raise TrainingEnded if a training with this token was recorded: it was cancelled, or is given up as dead."""
    job = find_job(session, task, token)
    if job is not None:
        raise TrainingEnded(f"this training is over ({job.reason or job.state.value}); start another")


def fail_dead_job(session: Session, task: Task, reason: str, *, now: datetime) -> TrainingJob | None:
    """Record the task's running job as failed; call it only when its process is known to be dead."""
    job = running_job(session, task)
    return finish_job(session, job.id, TrainingState.FAILED, reason, now=now) if job else None


def record_end(
    session: Session,
    task: Task,
    owner: JobOwner,
    mode: str | None,
    reason: str,
    *,
    state: TrainingState = TrainingState.FAILED,
    retry: bool = False,
    now: datetime,
) -> TrainingJob | None:
    """Record that the job of a dead process failed or was stopped, unless it recorded its own end; requires the lock.

    A process that failed or was cancelled before its job started gets a job now; None if no training is pending.
    """
    job = find_job(session, task, owner.token)
    is_recorded_always = state in (TrainingState.FAILED, TrainingState.CANCELLED)
    if job is None and is_recorded_always and pending_training(session, task) is not None:
        job = start_job(session, task, closed_rounds(session, task)[-1], mode or "unknown", owner, now=now)
    if job is None or job.state is not TrainingState.RUNNING:
        return job
    return finish_job(session, job.id, state, reason, now=now, retry=retry)


def record_heartbeat(session: Session, job_id: int, progress: JobProgress, *, now: datetime) -> bool:
    """Record the progress of a job; return whether it should continue: not if it was cancelled or recorded as dead."""
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING:
        return False
    job.beat_at = now
    job.stage, job.note = progress.stage[:MAX_TEXT], progress.note[:MAX_TEXT]
    job.steps, job.total = progress.steps, progress.total
    return job.cancel_at is None


def request_cancel(session: Session, task: Task, *, actor: str, now: datetime) -> TrainingJob:
    """Ask the task's running job to stop; asking again changes nothing.

    Raises:
        NoTraining: No job of the task is running.
        TrainingTooLate: The new version is already being rotated in.
    """
    running = running_job(session, task)
    job = _locked(session, running.id) if running else None
    if job is None or job.state is not TrainingState.RUNNING:
        raise NoTraining(f"no model of {task.name} is being trained", hint=Hint("list_trainings", task=task.name))
    if job.rotates_at is not None:
        raise TrainingTooLate(
            f"it is too late to cancel: the new version of {task.name} is being rotated in; roll it back afterwards",
            hint=Hint("roll_back_model", task=task.name),
        )
    if job.cancel_at is None:
        job.cancel_at, job.cancel_by = now, actor
        session.flush()
    return job


def start_rotation(session: Session, job_id: int, *, now: datetime) -> bool:
    """Record that the rotation starts, after which a job cannot be cancelled; return whether it should continue."""
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING or job.cancel_at is not None:
        return False
    job.rotates_at = now
    return True


def finish_job(
    session: Session,
    job_id: int,
    state: TrainingState,
    reason: str,
    *,
    now: datetime,
    version: ModelVersion | None = None,
    figures: dict[str, Any] | None = None,
    retry: bool = False,
) -> TrainingJob:
    """Record the end of a job; raise TrainingEnded if it has ended already.

    A job that a user asked to cancel is recorded as cancelled, however its process ended; otherwise it would be
    started again. `retry` marks a failure that a retry may resolve.
    """
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING:
        raise TrainingEnded(f"this training was recorded as dead and is over ({job.reason}); start another")
    if version is not None:
        job.model_version_id = version.id
    if job.cancel_at is not None and state in (TrainingState.FAILED, TrainingState.STOPPED):
        state, reason = TrainingState.CANCELLED, f"cancelled by {job.cancel_by}; {reason}"
    job.figures = figures
    job.retry = retry if state is TrainingState.FAILED else None
    job.finished_at, job.reason, job.state = now, " ".join(reason.split()) or state.value, state
    session.flush()
    return job


def running_job(session: Session, task: Task) -> TrainingJob | None:
    """Return the task's job that has not ended."""
    mine = (TrainingJob.task_id == task.id, TrainingJob.state == TrainingState.RUNNING)
    return session.scalar(select(TrainingJob).where(*mine))


def find_job(session: Session, task: Task, token: str) -> TrainingJob | None:
    """Return the task's job with this token."""
    return session.scalar(select(TrainingJob).where(TrainingJob.task_id == task.id, TrainingJob.token == token))


def next_start(session: Session, task: Task) -> str:
    """Return a text that identifies the next training of the task: it changes when another one is recorded."""
    last = session.scalar(select(Round.id).where(Round.task_id == task.id).order_by(Round.number.desc()).limit(1))
    known = session.scalar(select(func.count()).where(TrainingJob.task_id == task.id))
    return f"{task.name} {task.id} {task.created_at.isoformat()} {last} {known}"


def list_jobs(session: Session, task: Task, limit: int = 20) -> list[TrainingJob]:
    """Return the task's last jobs, newest first."""
    newest = select(TrainingJob).where(TrainingJob.task_id == task.id).order_by(TrainingJob.id.desc())
    return list(session.scalars(newest.limit(limit)))


def has_heartbeat(job: TrainingJob, *, now: datetime) -> bool:
    """Return whether the job sent a heartbeat recently."""
    return now - job.beat_at < HEARTBEAT_TIMEOUT


def is_process_gone(job: TrainingJob, *, now: datetime) -> bool:
    """Return whether the process of a running job was on this machine and no longer exists."""
    return now - job.beat_at >= FRESH and is_dead(job.host, job.pid, job.started_at)


def _locked(session: Session, job_id: int) -> TrainingJob:
    found = select(TrainingJob).where(TrainingJob.id == job_id).with_for_update()
    return session.scalars(found.execution_options(populate_existing=True)).one()


HEARTBEAT_SECONDS = 2.0

log = logging.getLogger(__name__)


class TrainingHeartbeat:
    """A Progress that forwards to another one, and sends heartbeats from a thread until the end of the block."""

    def __init__(
        self, store: Store, job_id: int, clock: Clock, progress: Progress, interval: float = HEARTBEAT_SECONDS
    ) -> None:
        self._store = store
        self._job_id = job_id
        self._clock = clock
        self._progress = progress
        self._interval = interval
        self._recorded = JobProgress()
        self._continues = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="training-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def start(self, total_steps: int, what: str) -> None:
        """Begin a stage of that many steps."""
        self._recorded = JobProgress(what, 0, total_steps)
        self._progress.start(total_steps, what)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Report that more steps are done."""
        self._recorded = replace(self._recorded, steps=self._recorded.steps + steps, note=note)
        self._progress.advance(steps, note)

    def finish(self) -> None:
        """End the stage."""
        self._progress.finish()

    def is_cancelled(self) -> bool:
        """Return whether the last heartbeat learned that the job should not continue."""
        return not self._continues

    def check(self) -> None:
        """Send a heartbeat now; raise TrainingCancelled if the job should not continue."""
        self._send()
        self._raise_if_cancelled()

    def seal(self) -> None:
        """Ask for the last time: from now on the job cannot be cancelled. Raise TrainingCancelled where it was."""
        with self._store.write() as session:
            self._continues = start_rotation(session, self._job_id, now=self._clock.now())
        self._raise_if_cancelled()

    def _raise_if_cancelled(self) -> None:
        if self.is_cancelled():
            raise TrainingCancelled("training was cancelled; no model was rotated in")

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            try:
                self._send()
            except RoundManagerError as error:
                # Whether to continue is asked again before anything changes, so a missed heartbeat is harmless.
                log.warning("could not record the progress of the training: %s", error)

    def _send(self) -> None:
        with self._store.write() as session:
            self._continues = record_heartbeat(session, self._job_id, self._recorded, now=self._clock.now())
