"""Work items: the things to do in a session, what is on the page for each, and whether all are done."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from round_manager.errors import WorkRefused
from round_manager.models import (
    Example,
    Hit,
    HitKind,
    Lease,
    LeaseEnd,
    QuizResult,
    SessionStatus,
    WorkSession,
)
from round_manager.work.context_strategies import is_live
from round_manager.work.leases import end_leases, some_rows
from round_manager.work.sessions import (
    SessionContext,
    items_of,
    lock_in_time,
    lock_session,
)

# How long a judgement's place is kept for it once it is handed in: the marketplace tells of it within minutes.
KEPT_FOR = timedelta(hours=1)


def missing(session: Session, desk: SessionContext) -> list[int]:
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
    held = lock_session(session, work)
    if held.status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED):
        return held
    desk = lock_in_time(session, held, now=now)
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


def sweep(session: Session, *, now: datetime) -> int:
    """Ends sessions and leases whose time is over, and marks what the marketplace will never confirm; how many.

    What another transaction holds at this moment is left for the next sweep.
    """
    late = select(WorkSession.id).where(WorkSession.status == SessionStatus.OPEN, WorkSession.expires_at <= now)
    expired = some_rows(session, late.order_by(WorkSession.expires_at))
    _mark(session, expired, SessionStatus.EXPIRED)
    end_leases(session, expired, LeaseEnd.EXPIRED, now=now)
    ended = select(Lease.id).where(Lease.ended_at.is_(None), Lease.expires_at <= now)
    over = some_rows(session, ended.order_by(Lease.expires_at))
    session.execute(update(Lease).where(Lease.id.in_(over)).values(ended_at=now, outcome=LeaseEnd.EXPIRED))
    finished = select(Hit.id).where(Hit.id == WorkSession.hit_id, Hit.finished_at.is_not(None))
    waiting = select(WorkSession.id).where(WorkSession.status == SessionStatus.SUBMITTED, finished.exists())
    unheard = some_rows(session, waiting)
    _mark(session, unheard, SessionStatus.UNCONFIRMED)
    end_leases(session, unheard, LeaseEnd.RETURNED, now=now)
    return len(expired) + len(over) + len(unheard)


def _mark(session: Session, pages: Sequence[int], status: SessionStatus) -> None:
    session.execute(update(WorkSession).where(WorkSession.id.in_(pages)).values(status=status))
