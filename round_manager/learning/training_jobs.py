"""Training jobs as the database records them: one at a time for each task, visible to every process.

The process that trains holds the task's lock, which the kernel or PostgreSQL releases when the process dies. So the
holder of the lock knows that a job still recorded as running belongs to a dead process. The row shows the progress to
others and carries their request to cancel; a job ends only once, so a process that lost its lock cannot end another's.
"""

import enum
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import Hint
from round_manager.audit import note
from round_manager.database.store import Store, process_lock
from round_manager.errors import DuplicateError, NoTraining, TrainingBusy, TrainingEnded, TrainingTooLate
from round_manager.jobs import new_token
from round_manager.learning.rows import closed_rounds, rows_to_learn
from round_manager.models import AuditEntry, ModelVersion, Round, Task, TrainingJob, TrainingState
from round_manager.tasks.tasks import find_task

# After these a round needs no further training; after a failure or a stop it does.
SETTLED = (TrainingState.ROTATED, TrainingState.REFUSED, TrainingState.CANCELLED)
DIED = "the process died without reporting an end: it was killed, ran out of memory, or its machine went down"
MAX_TEXT = 200
# A live training sends a heartbeat every few seconds.
HEARTBEAT_TIMEOUT = timedelta(minutes=1)
# Two heartbeats and a margin: a job heard from this recently is alive, wherever it runs.
FRESH = timedelta(seconds=5)
# Linux reports the start of a process to the second.
CLOCK_ERROR = timedelta(seconds=2)
PROC = Path("/proc")
# The audit log's action for a round that teaches nothing and needs no training.
PASSED_OVER = "passed over"


@dataclass(frozen=True)
class JobOwner:
    """The process that trains, and who started it; the token distinguishes this start from every other."""

    actor: str
    host: str
    pid: int
    token: str = field(default_factory=new_token)

    @classmethod
    def this_process(cls, actor: str, token: str | None = None) -> "JobOwner":
        """Return this process as the owner of a job."""
        return cls(actor, socket.gethostname(), os.getpid(), token or new_token())


@dataclass(frozen=True)
class JobProgress:
    """The progress of a job: its stage and the steps done; `total` is 0 where it is unknown."""

    stage: str = ""
    steps: int = 0
    total: int = 0
    note: str = ""


class JobSignal(enum.Enum):
    """The reply to a heartbeat: whether the job should continue."""

    CONTINUE = "continue"
    CANCEL = "cancel"
    ENDED = "ended"  # another process recorded it as dead


@dataclass(frozen=True)
class PendingTraining:
    """A closed round that no model has learned from yet, and how often that failed, with the last reason.

    Failures that a retry may resolve, such as an unreachable registry, are not counted.
    """

    round: int
    failures: int
    reason: str | None


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


def fail_dead_job(session: Session, task: Task, reason: str, *, now: datetime) -> TrainingJob | None:
    """Record the task's running job as failed; call it only when its process is known to be dead."""
    job = running_job(session, task)
    return finish_job(session, job.id, TrainingState.FAILED, reason, now=now) if job else None


def record_failure(
    session: Session,
    task: Task,
    owner: JobOwner,
    mode: str | None,
    reason: str,
    *,
    retry: bool = False,
    now: datetime,
) -> TrainingJob | None:
    """Record the job of a dead process as failed, unless it recorded its own end; requires the training lock.

    A process that died before its job started gets a job now, so that failures are counted; None if no training
    is pending.
    """
    job = find_job(session, task, owner.token)
    if job is None:
        if pending_training(session, task) is None:
            return None
        job = start_job(session, task, closed_rounds(session, task)[-1], mode or "unknown", owner, now=now)
    if job.state is not TrainingState.RUNNING:
        return job
    return finish_job(session, job.id, TrainingState.FAILED, reason, now=now, retry=retry)


def record_stop(session: Session, task: Task, token: str, reason: str, *, now: datetime) -> TrainingJob | None:
    """Record the job of a process that was stopped, unless it recorded its own end; None if it has no job."""
    job = find_job(session, task, token)
    if job is None or job.state is not TrainingState.RUNNING:
        return job
    return finish_job(session, job.id, TrainingState.STOPPED, reason, now=now)


def record_heartbeat(session: Session, job_id: int, progress: JobProgress, *, now: datetime) -> JobSignal:
    """Record the progress of a job; return whether it should continue."""
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING:
        return JobSignal.ENDED
    job.beat_at = now
    job.stage, job.note = progress.stage[:MAX_TEXT], progress.note[:MAX_TEXT]
    job.steps, job.total = progress.steps, progress.total
    return JobSignal.CONTINUE if job.cancel_at is None else JobSignal.CANCEL


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


def start_rotation(session: Session, job_id: int, *, now: datetime) -> JobSignal:
    """Record that the rotation starts, after which a job cannot be cancelled; return whether it should continue."""
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING:
        return JobSignal.ENDED
    if job.cancel_at is not None:
        return JobSignal.CANCEL
    job.rotates_at = now
    return JobSignal.CONTINUE


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


def list_jobs(session: Session, task: Task, limit: int = 20) -> list[TrainingJob]:
    """Return the task's last jobs, newest first."""
    newest = select(TrainingJob).where(TrainingJob.task_id == task.id).order_by(TrainingJob.id.desc())
    return list(session.scalars(newest.limit(limit)))


def has_heartbeat(job: TrainingJob, *, now: datetime) -> bool:
    """Return whether the job sent a heartbeat recently."""
    return now - job.beat_at < HEARTBEAT_TIMEOUT


def is_process_gone(job: TrainingJob, *, now: datetime) -> bool:
    """Return whether the process of a running job was on this machine and no longer exists."""
    if job.host != socket.gethostname() or now - job.beat_at < FRESH:
        return False
    try:
        os.kill(job.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # Another user's process has that number.
    return _is_another_process(job.pid, job.started_at)


def pending_training(session: Session, task: Task) -> PendingTraining | None:
    """Return the last closed round where it has rows to learn from and no training up to it has settled.

    A running training does not count: see running_job.
    """
    rounds = closed_rounds(session, task)
    if not rounds:
        return None
    last = rounds[-1]
    if not rows_to_learn(session, last):
        return None
    mine = (TrainingJob.task_id == task.id, TrainingJob.round_id == last.id)
    jobs = session.scalars(select(TrainingJob).where(*mine).order_by(TrainingJob.id)).all()
    if any(job.state in SETTLED for job in jobs) or skipped_round(session, task):
        return None
    failed = [job for job in jobs if job.state is TrainingState.FAILED and not job.retry]
    return PendingTraining(last.number, len(failed), failed[-1].reason if failed else None)


def skip_round(session: Session, task: Task, reason: str, *, actor: str, now: datetime) -> None:
    """Record that the last closed round teaches nothing, so that the next round need not wait for a training."""
    if pending_training(session, task) is not None:
        last = closed_rounds(session, task)[-1]
        note(session, PASSED_OVER, last, actor=actor, reason=reason, now=now, of=last)


def skipped_round(session: Session, task: Task) -> str | None:
    """Return why the last closed round needs no training; None if it was not skipped."""
    rounds = closed_rounds(session, task)
    if not rounds:
        return None
    written = select(AuditEntry.reason).where(AuditEntry.round_id == rounds[-1].id, AuditEntry.action == PASSED_OVER)
    return session.scalar(written.limit(1))


def _locked(session: Session, job_id: int) -> TrainingJob:
    found = select(TrainingJob).where(TrainingJob.id == job_id).with_for_update()
    return session.scalars(found.execution_options(populate_existing=True)).one()


def _is_another_process(pid: int, since: datetime) -> bool:
    """Return whether the process of that number is a zombie, or started later than the job."""
    try:
        # The name, in brackets, may hold anything.
        state, *numbers = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        (booted,) = (line.split()[1] for line in (PROC / "stat").read_text().splitlines() if line.startswith("btime"))
        began = int(booted) + int(numbers[18]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return False  # Not Linux, or the process has just ended; the next call finds out.
    return state == "Z" or datetime.fromtimestamp(began, UTC) > since + CLOCK_ERROR
