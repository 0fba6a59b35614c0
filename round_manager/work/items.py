"""Work items: the things to do in a session, what is on the page for each, and whether all are done."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.database.columns import json_text
from round_manager.errors import BadValueError, WorkRefused
from round_manager.models import (
    AuditEntry,
    Example,
    HitKind,
    Lease,
    QuizResult,
    SessionStatus,
    Worker,
    WorkItem,
    WorkSession,
)
from round_manager.work.choosing import is_live
from round_manager.work.sessions import Desk, at_work, desk_of, hold, in_time

LONGEST_DRAFT = 60_000
LONGEST_REPORT = 2_000
LONGEST_ACTOR = 120
REPORTED = "reported"
# A page is open to whoever has its link, and the owner's log must stay readable; one page must not use up all reports.
MOST_REPORTS = 10
MOST_OF_A_HIT = 500
MOST_ITEMS = 1_000
# How long a judgement's place is kept for it once it is handed in: the marketplace tells of it within minutes.
KEPT_FOR = timedelta(hours=1)


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


def keep_draft(
    session: Session, work: WorkSession, item: int | None, draft: Mapping[str, Any], *, now: datetime
) -> None:
    """What is on the page for an item, or for the whole page, is kept as it is until something else is."""
    desk = at_work(session, work, now=now)
    row = desk.work if item is None else find_item(session, work, item)
    _check_text(dict(draft), LONGEST_DRAFT, "what is on the page")
    row.draft = dict(draft)
    session.flush()


def report(session: Session, work: WorkSession, item: int | None, text: str, *, now: datetime) -> None:
    """A worker's problem is in the audit log, where the owner reads it; also when the HIT's time is over."""
    desk = desk_of(session, hold(session, work))
    told = text.strip()
    if not told:
        raise WorkRefused("write a sentence that tells what is wrong")
    _check_text(told, LONGEST_REPORT, "the report")
    row = None if item is None else find_item(session, work, item)
    about: dict[str, Any] = {"session": str(work.public_id), "item": item}
    if row is not None:
        about |= {"context": row.context_id, "example": row.example_id, "gold": row.gold_id}
    said = select(AuditEntry.after).where(
        AuditEntry.subject == "hit", AuditEntry.subject_id == desk.hit.id, AuditEntry.action == REPORTED
    )
    from_pages = [(after or {}).get("session") for after in session.scalars(said)]
    if from_pages.count(about["session"]) >= MOST_REPORTS or len(from_pages) >= MOST_OF_A_HIT:
        raise WorkRefused("enough was reported about this HIT; the owner will look at it")
    who = session.get_one(Worker, work.worker_id).external_id[:LONGEST_ACTOR]
    audit.note(session, REPORTED, desk.hit, who=who, why=told, now=now, of=desk.hit, after=about)
    session.flush()


def missing(session: Session, desk: Desk) -> list[int]:
    """The numbers of the items that are not done; a quiz is one item."""
    if desk.hit.kind is HitKind.QUIZ:
        taken = session.scalar(select(func.count()).where(QuizResult.session_id == desk.work.id))
        return [] if taken else [0]
    rows = items_of(session, desk.work)
    if desk.hit.kind is HitKind.VALIDATE:
        return [row.item for row in rows if row.judgement is None]
    written = set(session.scalars(select(Example.item).where(_written_in(desk.work))))
    return [row.item for row in rows if row.item not in written]


def finish(session: Session, work: WorkSession, *, now: datetime) -> WorkSession:
    """The session, handed in; once more does no harm. What is missing is told instead."""
    held = hold(session, work)
    if held.status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED):
        return held
    desk = in_time(session, held, now=now)
    # Nobody goes unpaid because their round was closed while they worked.
    left = missing(session, desk) if desk.takes_work else []
    if left:
        # Workers count from one.
        numbers = ", ".join(str(item + 1) for item in left)
        done = "the quiz is not answered" if desk.hit.kind is HitKind.QUIZ else f"not done yet: {numbers}"
        raise WorkRefused(f"{done}; nothing is handed in before all is done")
    held.status, held.submitted_at = SessionStatus.SUBMITTED, now
    mine = (Lease.session_id == held.id) & Lease.session_id.is_not(None) & is_live(now)
    session.execute(update(Lease).where(mine).values(expires_at=now + KEPT_FOR))
    session.flush()
    return held


def _written_in(work: WorkSession) -> Any:
    return (Example.session_id == work.id) & Example.session_id.is_not(None)


def _check_text(value: Any, longest: int, what: str) -> None:
    try:
        size = len(value) if isinstance(value, str) else len(json_text(value))
        json_text(value)
    except BadValueError as error:
        raise WorkRefused(f"{what} cannot be kept: {error}") from error
    if size > longest:
        raise WorkRefused(f"{what} has {size} characters; at most {longest} are accepted")
