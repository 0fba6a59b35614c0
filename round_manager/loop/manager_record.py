"""The manager's record: what its steps came to last, so that other processes see it and the next manager goes on."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.errors import DuplicateError
from round_manager.models import ManagerStep

# The row that tells of whole passes.
WHOLE = "manage"
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=15)
LONGEST_TEXT = 1_000


def steps_on_record(session: Session) -> dict[tuple[str, str], ManagerStep]:
    """Every step that was ever noted, by its name and its task."""
    return {(row.name, row.task): row for row in session.scalars(select(ManagerStep))}


def last_pass(session: Session) -> ManagerStep | None:
    """When a manager last came to the end of its steps, and which one that was."""
    return session.scalar(select(ManagerStep).where(ManagerStep.name == WHOLE))


def troubles(session: Session, task: str | None = None) -> Sequence[ManagerStep]:
    """The steps that fail or wait for something: all of them, or a task's own and those of no task."""
    wanted = select(ManagerStep).where(ManagerStep.error.is_not(None) | ManagerStep.waits.is_not(None))
    if task is not None:
        wanted = wanted.where(ManagerStep.task.in_((task, "")))
    return session.scalars(wanted.order_by(ManagerStep.task, ManagerStep.id)).all()


def note_pass(session: Session, *, who: str, now: datetime) -> None:
    """A manager has come to the end of its steps."""
    _row(session, WHOLE, "", who, now)


def note_well(session: Session, name: str, task: str, waits: str = "", *, who: str, now: datetime) -> None:
    """The step does not fail, or not any more; it may wait for something."""
    row = _row(session, name, task, who, now)
    row.waits = waits[:LONGEST_TEXT] or None
    row.error = row.failing_since = row.next_try_at = None
    row.failures = 0


def note_failure(
    session: Session, name: str, task: str, error: str, *, retry: bool, who: str, now: datetime
) -> ManagerStep:
    """The step failed; where trying again may help, it is not tried before the next time that the row tells.

    Each further failure doubles the pause, up to a quarter of an hour.
    """
    row = _row(session, name, task, who, now)
    row.waits, row.error = None, error[:LONGEST_TEXT].strip() or "it failed without a word"
    row.failing_since = row.failing_since or now
    row.failures += 1
    row.next_try_at = now + pause_after(row.failures) if retry else None
    return row


def pause_after(failures: int) -> timedelta:
    """How long a step rests after so many failures in a row."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(failures - 1, 20)
    return min(LONGEST_PAUSE, doubled)


def _row(session: Session, name: str, task: str, who: str, now: datetime) -> ManagerStep:
    mine = select(ManagerStep).where(ManagerStep.name == name, ManagerStep.task == task).with_for_update()
    row = session.scalar(mine)
    if row is None:
        row = ManagerStep(name=name, task=task, ran_at=now, ran_by=who)
        try:
            with session.begin_nested():
                session.add(row)
        except DuplicateError:  # Another manager was faster.
            row = session.scalars(mine).one()
    row.ran_at, row.ran_by = now, who
    return row
