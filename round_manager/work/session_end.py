"""The end of a session: its worker submits it, or its time runs out."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from round_manager.models import Example, Hit, HitKind, Lease, LeaseEnd, QuizResult, SessionStatus, WorkSession
from round_manager.work.context_strategies import is_live
from round_manager.work.errors import HitIncomplete
from round_manager.work.leases import end_leases, some_rows
from round_manager.work.sessions import SessionContext, items_of, lock_in_time, lock_session

# How long the lease on a judged example lasts after the HIT was submitted; the marketplace confirms within minutes.
KEPT_FOR = timedelta(hours=1)


def missing_items(session: Session, context: SessionContext) -> list[int]:
    """Return the numbers of the items that are not done; a quiz is one item."""
    work = context.work
    if context.hit.kind is HitKind.QUIZ:
        taken = session.scalar(select(func.count()).where(QuizResult.session_id == work.id))
        return [] if taken else [0]
    rows = items_of(session, work)
    if context.hit.kind is HitKind.VALIDATE:
        return [row.item for row in rows if row.judgement is None]
    written_here = (Example.session_id == work.id) & Example.session_id.is_not(None)
    written = set(session.scalars(select(Example.item).where(written_here)))
    return [row.item for row in rows if row.item not in written]


def finish(session: Session, work: WorkSession, *, now: datetime) -> WorkSession:
    """Mark the session as submitted and return it; a repeated call changes nothing."""
    held = lock_session(session, work)
    if held.status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED):
        return held
    context = lock_in_time(session, held, now=now)
    # A worker whose round was closed meanwhile submits what they have, and is paid.
    left = missing_items(session, context) if context.takes_work else []
    if left:
        # Workers count from one.
        numbers = ", ".join(str(item + 1) for item in left)
        done = "the quiz is not answered" if context.hit.kind is HitKind.QUIZ else f"not done yet: {numbers}"
        raise HitIncomplete(f"{done}; nothing is handed in before all is done")
    held.status, held.submitted_at = SessionStatus.SUBMITTED, now
    mine = (Lease.session_id == held.id) & Lease.session_id.is_not(None) & is_live(now)
    session.execute(update(Lease).where(mine).values(expires_at=now + KEPT_FOR))
    session.flush()
    return held


def sweep(session: Session, *, now: datetime) -> int:
    """End sessions and leases whose time is over, and submitted ones whose HIT has finished without them.

    Return how many were ended, at most SWEPT_AT_ONCE of each kind. Rows that another transaction has locked are left
    for the next call.
    """
    late = select(WorkSession.id).where(WorkSession.status == SessionStatus.OPEN, WorkSession.expires_at <= now)
    expired = some_rows(session, late.order_by(WorkSession.expires_at))
    _set_status(session, expired, SessionStatus.EXPIRED)
    end_leases(session, expired, LeaseEnd.EXPIRED, now=now)
    ended = select(Lease.id).where(Lease.ended_at.is_(None), Lease.expires_at <= now)
    over = some_rows(session, ended.order_by(Lease.expires_at))
    session.execute(update(Lease).where(Lease.id.in_(over)).values(ended_at=now, outcome=LeaseEnd.EXPIRED))
    finished = select(Hit.id).where(Hit.id == WorkSession.hit_id, Hit.finished_at.is_not(None))
    waiting = select(WorkSession.id).where(WorkSession.status == SessionStatus.SUBMITTED, finished.exists())
    unconfirmed = some_rows(session, waiting)
    _set_status(session, unconfirmed, SessionStatus.UNCONFIRMED)
    end_leases(session, unconfirmed, LeaseEnd.RETURNED, now=now)
    return len(expired) + len(over) + len(unconfirmed)


def _set_status(session: Session, sessions: Sequence[int], status: SessionStatus) -> None:
    session.execute(update(WorkSession).where(WorkSession.id.in_(sessions)).values(status=status))
