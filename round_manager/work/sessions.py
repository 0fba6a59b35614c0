"""Work sessions: a worker's page on the server, with its deadline and its time.

Everything that changes a session holds its row first, so that two tabs, a double click and the marketplace's own
confirmation come one after the other. Whoever also hands out work takes the task's turn before that, never after.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.database.columns import json_text
from round_manager.errors import BadValueError, TimeIsOver, WorkRefused
from round_manager.models import Hit, Round, SessionStatus, Task, WorkItem, WorkSession
from round_manager.specs import spec_of
from round_manager.tasks.rounds import LIVE
from templates import TaskSpec

MILLISECOND = timedelta(milliseconds=1)
LONGEST_DRAFT = 60_000
MOST_ITEMS = 1_000
# Sessions that stand for their worker; an expired or forged one counts for nothing.
VALID_SESSIONS = (SessionStatus.OPEN, SessionStatus.SUBMITTED, SessionStatus.CONFIRMED)


@dataclass(frozen=True)
class SessionContext:
    """A session with what it stands on: its HIT, its round (a quiz may have none) and the terms of the work."""

    work: WorkSession
    hit: Hit
    round: Round | None
    spec: TaskSpec

    @property
    def takes_work(self) -> bool:
        """Whether what is done now can still be stored."""
        return self.round is None or self.round.status in LIVE

    @property
    def open_round(self) -> Round:
        """The round, where there must be one."""
        if self.round is None:
            raise WorkRefused("this HIT belongs to no round; return it")
        return self.round


def find_session(session: Session, public_id: UUID) -> WorkSession:
    """The session of that public id, or a WorkRefused."""
    found = session.scalar(select(WorkSession).where(WorkSession.public_id == public_id))
    if found is None:
        raise WorkRefused("this page is not known here; open the HIT again on the marketplace")
    return found


def session_context(session: Session, work: WorkSession) -> SessionContext:
    """What the session stands on, as it is now; nothing is held."""
    hit = session.get_one(Hit, work.hit_id)
    round = session.get_one(Round, hit.round_id) if hit.round_id is not None else None
    return SessionContext(work, hit, round, spec_of(round or session.get_one(Task, hit.task_id)))


def lock_session(session: Session, work: WorkSession) -> WorkSession:
    """The session's row as it is now, and nobody else's until the transaction ends."""
    session.flush()
    return session.get_one(WorkSession, work.id, with_for_update={"key_share": True}, populate_existing=True)


def lock_in_time(session: Session, work: WorkSession, *, now: datetime) -> SessionContext:
    """The session held, open and in time, or one sentence that tells why nothing more can be done in it."""
    held = lock_session(session, work)
    if held.status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED):
        raise WorkRefused("this HIT is handed in already; nothing can be changed any more")
    if held.status is SessionStatus.UNCONFIRMED:
        raise WorkRefused("the marketplace gave this HIT to somebody else; take another one")
    if held.status is SessionStatus.EXPIRED or now >= held.expires_at:
        raise TimeIsOver("the time for this HIT is over; return it and take another one")
    return session_context(session, held)


def lock_for_work(session: Session, work: WorkSession, *, now: datetime) -> SessionContext:
    """The same, while the round takes work too."""
    desk = lock_in_time(session, work, now=now)
    if not desk.takes_work:
        raise WorkRefused("this round was closed and takes no more work; hand in the HIT as it is")
    return desk


def record_active_time(session: Session, work: WorkSession, active_ms: int, *, now: datetime) -> int:
    """The active time so far, in all: what the page counted, never less than before, never more than has passed."""
    held = lock_session(session, work)
    if held.status is SessionStatus.OPEN:
        passed = (min(now, held.expires_at) - held.started_at) // MILLISECOND
        held.active_ms = max(held.active_ms, min(active_ms, passed))
        session.flush()
    return held.active_ms


def items_of(session: Session, work: WorkSession) -> list[WorkItem]:
    """The session's items, in the order in which its worker sees them."""
    return list(session.scalars(select(WorkItem).where(WorkItem.session_id == work.id).order_by(WorkItem.item)))


def find_item(session: Session, work: WorkSession, item: int) -> WorkItem:
    """The session's own item of that number, as it is now."""
    known = isinstance(item, int) and 0 <= item < MOST_ITEMS
    wanted = select(WorkItem).where(WorkItem.session_id == work.id, WorkItem.item == item)
    found = session.scalar(wanted.execution_options(populate_existing=True)) if known else None
    if found is None:
        raise WorkRefused("this HIT has no such item; load the page again")
    return found


def save_draft(
    session: Session, work: WorkSession, item: int | None, draft: Mapping[str, Any], *, now: datetime
) -> None:
    """What is on the page for an item, or for the whole page, is kept as it is until something else is."""
    desk = lock_for_work(session, work, now=now)
    row = desk.work if item is None else find_item(session, work, item)
    check_text(dict(draft), LONGEST_DRAFT, "what is on the page")
    row.draft = dict(draft)
    session.flush()


def add_item_time(
    session: Session, work: WorkSession, row: WorkItem, active_ms: int | None, *, now: datetime
) -> int | None:
    """What the count gained goes to the item, and is returned; a page that sends no count had its last beat.

    A page that never told of its time has none, not nought. What a page sends is believed as far as a beat is.
    """
    count = record_active_time(session, work, active_ms or 0, now=now)
    if not count:
        return None
    spent = select(func.sum(WorkItem.active_ms)).where(WorkItem.session_id == work.id)
    gained = count - int(session.scalar(spent) or 0)
    row.active_ms = (row.active_ms or 0) + gained
    session.flush()
    return gained


def check_text(value: Any, longest: int, what: str) -> None:
    """Raise WorkRefused if the value is too long, or cannot be stored."""
    try:
        size = len(value) if isinstance(value, str) else len(json_text(value))
        json_text(value)
    except BadValueError as error:
        raise WorkRefused(f"{what} cannot be kept: {error}") from error
    if size > longest:
        raise WorkRefused(f"{what} has {size} characters; at most {longest} are accepted")
