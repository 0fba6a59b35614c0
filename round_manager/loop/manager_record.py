"""The last result of every manager step, for other processes to show and for the next manager to continue from."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.database.engine import find_or_add
from round_manager.models import ManagerStep

# The row about complete passes.
WHOLE = "manage"
FIRST_BACKOFF = timedelta(seconds=5)
LONGEST_BACKOFF = timedelta(minutes=15)
LONGEST_TEXT = 1_000


def recorded_steps(session: Session) -> dict[tuple[str, str], ManagerStep]:
    """Return every recorded step by its name and its task."""
    return {(row.name, row.task): row for row in session.scalars(select(ManagerStep))}


def last_pass(session: Session) -> ManagerStep | None:
    """Return the record of the last complete pass: when it ended and which manager ran it."""
    return session.scalar(select(ManagerStep).where(ManagerStep.name == WHOLE))


def problem_steps(session: Session, task: str | None = None) -> Sequence[ManagerStep]:
    """Return the steps that fail or wait: all of them, or those of a task and those of no task."""
    wanted = select(ManagerStep).where(ManagerStep.error.is_not(None) | ManagerStep.waits.is_not(None))
    if task is not None:
        wanted = wanted.where(ManagerStep.task.in_((task, "")))
    return session.scalars(wanted.order_by(ManagerStep.task, ManagerStep.id)).all()


def record_pass(session: Session, *, actor: str, now: datetime) -> None:
    """Record that a manager completed a pass."""
    _row(session, WHOLE, "", actor, now)


def record_success(session: Session, name: str, task: str, waits: str = "", *, actor: str, now: datetime) -> None:
    """Record that the step did not fail; it may wait for something."""
    row = _row(session, name, task, actor, now)
    row.waits = waits[:LONGEST_TEXT] or None
    row.error = row.failing_since = row.next_try_at = None
    row.failures = 0


def record_failure(
    session: Session, name: str, task: str, error: str, *, retry: bool, actor: str, now: datetime
) -> ManagerStep:
    """Record a failure; a step that can be retried backs off until `next_try_at`.

    Each further failure doubles the backoff, up to a quarter of an hour.
    """
    row = _row(session, name, task, actor, now)
    row.waits, row.error = None, error[:LONGEST_TEXT].strip() or "it failed without a message"
    row.failing_since = row.failing_since or now
    row.failures += 1
    row.next_try_at = now + backoff_after(row.failures) if retry else None
    return row


def backoff_after(failures: int) -> timedelta:
    """Return the backoff after this many failures in a row."""
    doubled: timedelta = FIRST_BACKOFF * 2 ** min(failures - 1, 20)
    return min(LONGEST_BACKOFF, doubled)


def is_backing_off(row: ManagerStep, *, now: datetime) -> bool:
    """Return whether a step that failed waits before it is retried.

    If its backoff ends later than any backoff that began now, a clock was set back since; then it does not wait.
    """
    return row.next_try_at is not None and now < row.next_try_at <= now + backoff_after(row.failures)


def _row(session: Session, name: str, task: str, actor: str, now: datetime) -> ManagerStep:
    mine = select(ManagerStep).where(ManagerStep.name == name, ManagerStep.task == task).with_for_update()
    row = find_or_add(session, mine, lambda: ManagerStep(name=name, task=task, ran_at=now, ran_by=actor))
    row.ran_at, row.ran_by = now, actor
    return row
