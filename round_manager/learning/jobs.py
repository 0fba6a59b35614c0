"""Trainings: one at a time for each task, seen by everybody, and never in the way of the next when one dies.

Whoever trains holds the task's lock, which the kernel or PostgreSQL gives back with the process; so whoever gets the
lock knows that a job which is still called running is nobody's any more. The row tells the others how far it is and
carries their wish to cancel it; and because it ends once, a process that lost its lock can end nothing.
"""

import enum
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.audit import note
from round_manager.database.locks import process_lock
from round_manager.database.store import Store
from round_manager.errors import DuplicateError, TrainingBusy, TrainingError
from round_manager.learning.rows import closed_rounds, rows_to_learn
from round_manager.models import AuditEntry, ModelVersion, Round, Task, TrainingJob, TrainingState
from round_manager.tasks.tasks import find_task

# After these a round needs no further training; after a failure or a stop it does.
SETTLED = (TrainingState.ROTATED, TrainingState.REFUSED, TrainingState.CANCELLED)
DIED = "its process ended without a word: it was killed, perhaps for want of memory, or its machine went down"
LONGEST_TEXT = 200
# A training whose process lives is heard of every few seconds.
SILENT = timedelta(minutes=1)
# The audit log's word for a round that teaches nothing: no training of it is awaited any more.
PASSED_OVER = "passed over"


def new_token() -> str:
    """A word for one start of a training, and for no other."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Trainer:
    """The process that trains, and who started it; the token tells this start from every other."""

    who: str
    host: str
    pid: int
    token: str = field(default_factory=new_token)


@dataclass(frozen=True)
class HowFar:
    """How far a training is: so many steps of a stage, of which `total` is 0 where nobody knows."""

    stage: str = ""
    steps: int = 0
    total: int = 0
    note: str = ""


class Wish(enum.Enum):
    """What others want of a training."""

    GO_ON = "go on"
    CANCEL = "cancel"
    GONE = "gone"  # it is over already: somebody took this process for dead


@dataclass(frozen=True)
class Awaited:
    """A round that no model has learned from yet, and how often that failed for good, with the last reason.

    What trying again may mend, such as a registry that does not answer, is not counted.
    """

    round: int
    failures: int
    reason: str | None


@contextmanager
def training_turn(store: Store, name: str) -> Iterator[None]:
    """Nobody else trains the task until the end of the block; a TrainingBusy at once where somebody does."""

    def refuse() -> None:
        with store.read() as session:
            job = running_job(session, find_task(session, name))
        by = f" by {job.started_by} since {job.started_at:%Y-%m-%d %H:%M} UTC" if job else ""
        cure = f"`outfox model jobs {name}` shows it, `outfox model cancel {name}` stops it"
        raise TrainingBusy(f"a model of {name} is being trained already{by}; {cure}")

    with process_lock(store, f"training-{name}", refuse):
        yield


def begin(session: Session, task: Task, round: Round, mode: str, trainer: Trainer, *, now: datetime) -> TrainingJob:
    """The job of whoever holds the task's lock; one that a dead process left behind is told to have failed."""
    bury(session, task, DIED, now=now)
    job = TrainingJob(
        task_id=task.id,
        round_id=round.id,
        mode=mode,
        started_by=trainer.who,
        host=trainer.host,
        pid=trainer.pid,
        token=trainer.token,
        started_at=now,
        beat_at=now,
    )
    try:
        with session.begin_nested():
            session.add(job)
    except DuplicateError as error:
        raise TrainingBusy(f"a model of {task.name} is being trained already") from error
    return job


def bury(session: Session, task: Task, reason: str, *, now: datetime) -> TrainingJob | None:
    """The task's running job, told to have failed for that reason; only for whoever knows that its process is gone."""
    job = running_job(session, task)
    return finish(session, job.id, TrainingState.FAILED, reason, now=now) if job else None


def tell_failure(
    session: Session,
    task: Task,
    trainer: Trainer,
    mode: str | None,
    reason: str,
    *,
    retry: bool = False,
    now: datetime,
) -> TrainingJob | None:
    """The job of a process that is gone, told to have failed unless it told its own end; for whoever has the lock.

    One that ended before its job began gets one now, so that failures are counted; None where none was awaited.
    """
    job = job_of(session, task, trainer.token)
    if job is None:
        if awaited(session, task) is None:
            return None
        job = begin(session, task, closed_rounds(session, task)[-1], mode or "unknown", trainer, now=now)
    if job.state is not TrainingState.RUNNING:
        return job
    return finish(session, job.id, TrainingState.FAILED, reason, now=now, retry=retry)


def tell_stop(session: Session, task: Task, token: str, reason: str, *, now: datetime) -> TrainingJob | None:
    """The job of a process that was told to end and is gone, stopped unless it told so itself; None without a job."""
    job = job_of(session, task, token)
    if job is None or job.state is not TrainingState.RUNNING:
        return job
    return finish(session, job.id, TrainingState.STOPPED, reason, now=now)


def beat(session: Session, job_id: int, how_far: HowFar, *, now: datetime) -> Wish:
    """Tell how far the job is, and hear what others want of it."""
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING:
        return Wish.GONE
    job.beat_at = now
    job.stage, job.note = how_far.stage[:LONGEST_TEXT], how_far.note[:LONGEST_TEXT]
    job.steps, job.total = how_far.steps, how_far.total
    return Wish.GO_ON if job.cancel_at is None else Wish.CANCEL


def ask_to_cancel(session: Session, task: Task, *, who: str, now: datetime) -> TrainingJob:
    """The task's running job, which will hear that it is not wanted any more; asking again changes nothing.

    A TrainingError where there is none, or where its version is being pinned already.
    """
    running = running_job(session, task)
    job = _locked(session, running.id) if running else None
    if job is None or job.state is not TrainingState.RUNNING:
        raise TrainingError(f"no model of {task.name} is being trained; `outfox model jobs {task.name}` shows the last")
    if job.rotates_at is not None:
        cure = f"`outfox model rollback {task.name}` brings the old one back when it is done"
        raise TrainingError(f"it is too late: the new version of {task.name} is being rotated in; {cure}")
    if job.cancel_at is None:
        job.cancel_at, job.cancel_by = now, who
        session.flush()
    return job


def begin_rotation(session: Session, job_id: int, *, now: datetime) -> Wish:
    """From now on it is too late to cancel the job, unless others want something else of it already."""
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING:
        return Wish.GONE
    if job.cancel_at is not None:
        return Wish.CANCEL
    job.rotates_at = now
    return Wish.GO_ON


def finish(
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
    """The job at its end; a TrainingError where it has ended already, so that nobody ends what another goes on with.

    One that somebody wanted to stop is cancelled, however its process came to its end; else it would be begun again.
    `retry` tells of a failure that trying again may help.
    """
    job = _locked(session, job_id)
    if job.state is not TrainingState.RUNNING:
        raise TrainingError(f"this training was taken for dead and is over ({job.reason}); begin another")
    if version is not None:
        job.model_version_id = version.id
    if job.cancel_at is not None and state in (TrainingState.FAILED, TrainingState.STOPPED):
        state, reason = TrainingState.CANCELLED, f"{job.cancel_by} cancelled it; {reason}"
    job.figures = figures
    job.retry = retry if state is TrainingState.FAILED else None
    job.finished_at, job.reason, job.state = now, " ".join(reason.split()) or state.value, state
    session.flush()
    return job


def running_job(session: Session, task: Task) -> TrainingJob | None:
    """The task's job that is not over."""
    mine = (TrainingJob.task_id == task.id, TrainingJob.state == TrainingState.RUNNING)
    return session.scalar(select(TrainingJob).where(*mine))


def is_heard_of(job: TrainingJob, *, now: datetime) -> bool:
    """Whether its process told of itself a moment ago."""
    return now - job.beat_at < SILENT


def job_of(session: Session, task: Task, token: str) -> TrainingJob | None:
    """The task's job that came from this start."""
    return session.scalar(select(TrainingJob).where(TrainingJob.task_id == task.id, TrainingJob.token == token))


def list_jobs(session: Session, task: Task, most: int = 20) -> list[TrainingJob]:
    """The task's last jobs, the newest first."""
    newest = select(TrainingJob).where(TrainingJob.task_id == task.id).order_by(TrainingJob.id.desc())
    return list(session.scalars(newest.limit(most)))


def awaited(session: Session, task: Task) -> Awaited | None:
    """The last closed round, where it has something to teach and no training up to it has come to an end.

    A training that is running does not count: see running_job.
    """
    rounds = closed_rounds(session, task)
    if not rounds:
        return None
    last = rounds[-1]
    if not rows_to_learn(session, last):
        return None
    mine = (TrainingJob.task_id == task.id, TrainingJob.round_id == last.id)
    jobs = session.scalars(select(TrainingJob).where(*mine).order_by(TrainingJob.id)).all()
    if any(job.state in SETTLED for job in jobs) or passed_over(session, task):
        return None
    failed = [job for job in jobs if job.state is TrainingState.FAILED and not job.retry]
    return Awaited(last.number, len(failed), failed[-1].reason if failed else None)


def pass_over(session: Session, task: Task, why: str, *, who: str, now: datetime) -> None:
    """The last closed round teaches nothing: it waits for no training, and the next one can open."""
    if awaited(session, task) is not None:
        last = closed_rounds(session, task)[-1]
        note(session, PASSED_OVER, last, who=who, why=why, now=now, of=last)


def passed_over(session: Session, task: Task) -> str | None:
    """Why no training of the last closed round is awaited; None where it was not passed over."""
    rounds = closed_rounds(session, task)
    if not rounds:
        return None
    written = select(AuditEntry.reason).where(AuditEntry.round_id == rounds[-1].id, AuditEntry.action == PASSED_OVER)
    return session.scalar(written.limit(1))


def _locked(session: Session, job_id: int) -> TrainingJob:
    found = select(TrainingJob).where(TrainingJob.id == job_id).with_for_update()
    return session.scalars(found.execution_options(populate_existing=True)).one()
