"""Work sessions: a worker's page on the server, with its items and its deadline.

A transaction that changes a session locks the session's row first, so that two tabs, a double click and the
marketplace's confirmation are processed one after the other. A transaction that also assigns work locks the task
before the session, never after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import and_, bindparam, exists, func, select, update
from sqlalchemy.orm import Session

from common.messages import gettext
from round_manager.database.columns import json_text
from round_manager.database.engine import locks_rows
from round_manager.errors import BadValueError
from round_manager.models import (
    Example,
    Hit,
    HitKind,
    Lease,
    LeaseEnd,
    QuizResult,
    Round,
    SessionStatus,
    Task,
    WorkItem,
    WorkSession,
    spec_of,
)
from round_manager.models.table import table_of
from round_manager.tasks.rounds import LIVE
from round_manager.work import errors
from round_manager.work.errors import TimeIsOver
from round_manager.work.leases import end_leases, keep_leases, some_rows
from templates import TaskSpec

LONGEST_DRAFT = 60_000
# The example of an item.
OF_ITEM = and_(
    Example.session_id == WorkItem.session_id, Example.session_id.is_not(None), Example.item == WorkItem.item
)
OVER = gettext("the time for this HIT is over; return it and take another one")
MOST_ITEMS = 1_000

# Built once: each request of a page runs them.
_BY_PUBLIC_ID = select(WorkSession).where(WorkSession.public_id == bindparam("public_id"))
_LOCKED_BY_PUBLIC_ID = _BY_PUBLIC_ID.with_for_update(key_share=True)
_LOCK = (
    select(table_of(WorkSession).c.id)
    .where(table_of(WorkSession).c.public_id == bindparam("public_id"))
    .with_for_update(key_share=True)
)
_PAGE = (
    select(WorkSession, Hit, Round)
    .join(Hit, Hit.id == WorkSession.hit_id)
    .outerjoin(Round, Round.id == Hit.round_id)
    .where(WorkSession.public_id == bindparam("public_id"))
)
_HIT_AND_ROUND = select(Hit, Round).outerjoin(Round, Round.id == Hit.round_id).where(Hit.id == bindparam("hit_id"))
_ITEMS = select(WorkItem).where(WorkItem.session_id == bindparam("session_id")).order_by(WorkItem.item)
_ITEM = (
    select(WorkItem)
    .where(WorkItem.session_id == bindparam("session_id"), WorkItem.item == bindparam("item"))
    .execution_options(populate_existing=True)
)
_UPDATE_DRAFT = (
    update(table_of(WorkItem))
    .where(table_of(WorkItem).c.id == bindparam("of"))
    .values(draft=bindparam("on_page", type_=table_of(WorkItem).c.draft.type))
)

_OVERDUE = select(
    exists().where(WorkSession.status == SessionStatus.OPEN, WorkSession.expires_at <= bindparam("now"))
    | exists().where(Lease.ended_at.is_(None), Lease.expires_at <= bindparam("now"))
)


@dataclass(frozen=True)
class SessionContext:
    """A session with its HIT, its round (a quiz may have none) and the terms of the work."""

    work: WorkSession
    hit: Hit
    round: Round | None
    spec: TaskSpec

    @property
    def takes_work(self) -> bool:
        """Whether work that is done now can still be stored."""
        return self.round is None or self.round.status in LIVE

    @property
    def open_round(self) -> Round:
        """The round; PageUnknown for a HIT without one."""
        if self.round is None:
            raise errors.PageUnknown(gettext("this HIT belongs to no round; return it"), hint=errors.RETURN_HIT)
        return self.round

    def require_time_left(self, now: datetime) -> None:
        """Raise a WorkRefused unless the session is open and its time is not over."""
        status = self.work.status
        if status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED):
            raise errors.AlreadySubmitted(gettext("this HIT is already submitted; nothing can be changed any more"))
        if status is SessionStatus.UNCONFIRMED:
            raise errors.HitReassigned
        if status is SessionStatus.EXPIRED or now >= self.work.expires_at:
            raise TimeIsOver(OVER)

    def require_open(self, now: datetime) -> None:
        """Raise a WorkRefused unless the session has time left and the round takes work."""
        self.require_time_left(now)
        if not self.takes_work:
            text = gettext("this round was closed and takes no more work; submit the HIT as it is")
            raise errors.RoundTakesNoWork(text, hint=errors.SUBMIT_HIT)


def find_session(session: Session, public_id: UUID) -> WorkSession:
    """Return the session of that public id."""
    return _known(session.scalar(_BY_PUBLIC_ID, {"public_id": public_id}))


def find_page(session: Session, public_id: UUID) -> SessionContext:
    """Return the session of that public id with its HIT, round and terms; nothing is locked."""
    found = session.execute(_PAGE, {"public_id": public_id}).one_or_none()
    if found is None:
        raise _unknown_page()
    work, hit, round = found
    return context_of(session, work, hit, round)


def lock_page_alone(session: Session, public_id: UUID) -> None:
    """Lock the session of that public id until the transaction ends, without reading it."""
    if locks_rows(session):
        session.execute(_LOCK, {"public_id": public_id})


def lock_page(session: Session, public_id: UUID) -> WorkSession:
    """Lock the session of that public id until the transaction ends, and return it."""
    found = _known(session.scalar(_LOCKED_BY_PUBLIC_ID, {"public_id": public_id}))
    note_lock(session, found)
    return found


def _known(found: WorkSession | None) -> WorkSession:
    if found is None:
        raise _unknown_page()
    return found


def _unknown_page() -> errors.PageUnknown:
    text = gettext("this page is not known here; open the HIT again on the marketplace")
    return errors.PageUnknown(text, hint=errors.REOPEN_HIT)


def session_context(session: Session, work: WorkSession) -> SessionContext:
    """Return the session with its HIT, round and terms; nothing is locked."""
    hit, round = session.execute(_HIT_AND_ROUND, {"hit_id": work.hit_id}).one()
    return context_of(session, work, hit, round)


def context_of(session: Session, work: WorkSession, hit: Hit, round: Round | None) -> SessionContext:
    """Return the session with a HIT and a round that were read already, and the terms."""
    return SessionContext(work, hit, round, spec_of(round or session.get_one(Task, hit.task_id)))


def lock_session(session: Session, work: WorkSession) -> WorkSession:
    """Lock the session's row until the transaction ends, and return it as it is now.

    A row that this transaction has locked already is not read again: nobody else can have changed it.
    """
    session.flush()
    if work.id in _locked(session):
        return session.get_one(WorkSession, work.id)
    found = session.get_one(WorkSession, work.id, with_for_update={"key_share": True}, populate_existing=True)
    note_lock(session, found)
    return found


def note_lock(session: Session, work: WorkSession) -> None:
    """Note that the transaction has locked the session, so that it is not locked and read again."""
    _locked(session).add(work.id)


def _locked(session: Session) -> set[int]:
    """Return the ids of the work sessions that the transaction has locked; each transaction has its own Session."""
    found: set[int] = session.info.setdefault("locked_work_sessions", set())
    return found


def lock_for_work(session: Session, work: WorkSession, *, now: datetime) -> SessionContext:
    """Lock a session that has time left and whose round takes work, or raise a WorkRefused."""
    context = session_context(session, lock_session(session, work))
    context.require_open(now)
    return context


def items_of(session: Session, work: WorkSession) -> list[WorkItem]:
    """Return the session's items in the order in which the worker sees them."""
    return list(session.scalars(_ITEMS, {"session_id": work.id}))


def find_item(session: Session, work: WorkSession, item: int) -> WorkItem:
    """Return the session's item of that number, as it is now."""
    found = session.scalar(_ITEM, {"session_id": work.id, "item": item}) if is_item(item) else None
    if found is None:
        raise no_such_item()
    return found


def is_item(item: int) -> bool:
    """Whether a session can have an item of that number, which may come from a client."""
    return isinstance(item, int) and 0 <= item < MOST_ITEMS


def no_such_item() -> errors.PageUnknown:
    """Return the error for a number that is no item of the session."""
    return errors.PageUnknown(gettext("this HIT has no such item; load the page again"), hint=errors.RELOAD_PAGE)


def save_draft(
    session: Session, work: WorkSession, item: int | None, draft: Mapping[str, Any], *, now: datetime
) -> None:
    """Store what is on the page for an item, or for the whole page, in place of the draft before."""
    context = lock_for_work(session, work, now=now)
    row = context.work if item is None else find_item(session, work, item)
    check_draft(draft)
    row.draft = dict(draft)
    session.flush()


def update_draft(session: Session, row: WorkItem, draft: Mapping[str, Any]) -> None:
    """Store what is on the page for an item, which was read and checked before; the row itself stays as it is."""
    session.execute(_UPDATE_DRAFT, {"of": row.id, "on_page": dict(draft)})


def check_draft(draft: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a draft is too long, or cannot be stored."""
    try:
        check_text(dict(draft), LONGEST_DRAFT)
    except errors.TextTooLong as error:
        text = gettext("there is too much on this page to be saved; shorten your text")
        raise errors.TextTooLong(text) from error


def check_text(value: Any, longest: int) -> None:
    """Raise InvalidInput if the value is too long, or cannot be stored."""
    try:
        size = len(value) if isinstance(value, str) else len(json_text(value))
        json_text(value)
    except BadValueError as error:
        raise errors.InvalidInput(gettext("this text cannot be saved: %(why)s", why=error.message)) from error
    if size > longest:
        raise errors.TextTooLong(
            gettext("your text has %(size)s characters; at most %(most)s are accepted", size=size, most=longest)
        )


# How long the lease on a judged example lasts after the HIT was submitted; the marketplace confirms within minutes.
KEPT_FOR = timedelta(hours=1)


_UNWRITTEN = (
    select(table_of(WorkItem).c.item)
    .outerjoin(table_of(Example), OF_ITEM)
    .where(table_of(WorkItem).c.session_id == bindparam("session_id"), table_of(Example).c.id.is_(None))
    .order_by(table_of(WorkItem).c.item)
)


def missing_items(session: Session, context: SessionContext) -> list[int]:
    """Return the numbers of the items that are not done; a quiz is one item."""
    work = context.work
    if context.hit.kind is HitKind.QUIZ:
        taken = session.scalar(select(func.count()).where(QuizResult.session_id == work.id))
        return [] if taken else [0]
    if context.hit.kind is HitKind.VALIDATE:
        return [row.item for row in items_of(session, work) if row.judgement is None]
    return list(session.scalars(_UNWRITTEN, {"session_id": work.id}))


def finish_page(session: Session, public_id: UUID, *, now: datetime) -> WorkSession:
    """Mark the session as submitted and return it; a repeated call changes nothing."""
    lock_page_alone(session, public_id)
    context = find_page(session, public_id)
    held = context.work
    if held.status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED):
        return held
    context.require_time_left(now)
    # A worker whose round was closed meanwhile submits what they have, and is paid.
    left = missing_items(session, context) if context.takes_work else []
    if left:
        if context.hit.kind is HitKind.QUIZ:
            raise errors.HitIncomplete(gettext("the quiz is not answered; nothing is submitted before all is done"))
        # Workers count from one.
        numbers = ", ".join(str(item + 1) for item in left)
        raise errors.HitIncomplete(
            gettext("not done yet: %(items)s; nothing is submitted before all is done", items=numbers)
        )
    held.status, held.submitted_at = SessionStatus.SUBMITTED, now
    session.flush()
    keep_leases(session, held, KEPT_FOR, now=now)
    return held


def has_overdue(session: Session, *, now: datetime) -> bool:
    """Whether there are sessions or leases whose time is over, and which have not been ended."""
    return bool(session.scalar(_OVERDUE, {"now": now}))


def sweep(session: Session, *, now: datetime) -> int:
    """End sessions and leases whose time is over, and submitted ones whose HIT has finished without them.

    Return how many were ended, at most SWEPT_AT_ONCE of each kind. Rows that another transaction has locked are left
    for the next call.
    """
    late = select(WorkSession.id).where(WorkSession.status == SessionStatus.OPEN, WorkSession.expires_at <= now)
    expired = some_rows(session, late.order_by(WorkSession.expires_at))
    _end(session, expired, SessionStatus.EXPIRED, LeaseEnd.EXPIRED, now)
    ended = select(Lease.id).where(Lease.ended_at.is_(None), Lease.expires_at <= now)
    over = some_rows(session, ended.order_by(Lease.expires_at))
    if over:
        session.execute(update(Lease).where(Lease.id.in_(over)).values(ended_at=now, outcome=LeaseEnd.EXPIRED))
    finished = select(Hit.id).where(Hit.id == WorkSession.hit_id, Hit.finished_at.is_not(None))
    waiting = select(WorkSession.id).where(WorkSession.status == SessionStatus.SUBMITTED, finished.exists())
    unconfirmed = some_rows(session, waiting)
    _end(session, unconfirmed, SessionStatus.UNCONFIRMED, LeaseEnd.RETURNED, now)
    return len(expired) + len(over) + len(unconfirmed)


def _end(session: Session, sessions: Sequence[int], status: SessionStatus, outcome: LeaseEnd, now: datetime) -> None:
    if sessions:
        session.execute(update(WorkSession).where(WorkSession.id.in_(sessions)).values(status=status))
        end_leases(session, sessions, outcome, now=now)
