"""What happens by itself when its time comes: work is abandoned, approved, and HITs expire."""

from datetime import datetime

from sqlalchemy import bindparam, exists, not_, or_, select
from sqlalchemy.orm import Session

from mturk.marketplace import decisions, places, standing, tokens
from mturk.marketplace.columns import Moment
from mturk.marketplace.tables import Assignment, AssignmentStatus, Hit

# Made once: it is asked in every transaction.
_NOW = bindparam("now", type_=Moment())
_DUE = select(
    or_(
        exists().where(Assignment.status == AssignmentStatus.ACCEPTED, Assignment.deadline <= _NOW),
        exists().where(Assignment.status == AssignmentStatus.SUBMITTED, Assignment.auto_approve_at <= _NOW),
        exists().where(not_(Hit.expired), Hit.expires_at <= _NOW),
    )
)


def anything_due(session: Session, now: datetime) -> bool:
    """Whether something should have happened by now."""
    return bool(session.execute(_DUE, {"now": now}).scalar())


def catch_up(session: Session, now: datetime) -> None:
    """Everything that is due by now happens, with the times at which it was due."""
    if not anything_due(session, now):
        return
    for hit in session.scalars(select(Hit).where(not_(Hit.expired), Hit.expires_at <= now)).all():
        standing.expire(session, hit, now)
    held = select(Assignment).where(Assignment.status == AssignmentStatus.ACCEPTED, Assignment.deadline <= now)
    for assignment in session.scalars(held.order_by(Assignment.deadline)).all():
        places.free(session, assignment, now, abandoned=True)
    waiting = select(Assignment, Hit).join(Hit, Hit.id == Assignment.hit_id)
    due = waiting.where(Assignment.status == AssignmentStatus.SUBMITTED, Assignment.auto_approve_at <= now)
    for assignment, hit in session.execute(due.order_by(Assignment.auto_approve_at)).all():
        decisions.approve(session, assignment, hit, assignment.auto_approve_at or now)
    tokens.forget(session, now)
    session.flush()
