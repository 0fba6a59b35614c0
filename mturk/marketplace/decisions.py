"""Deciding about work: approval pays, rejection gives the hold back, and can be overridden for a while."""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from mturk.marketplace import events, money, standing
from mturk.marketplace.errors import MarketError
from mturk.marketplace.tables import Assignment, AssignmentStatus, Hit, HitStatus, Worker

OVERRIDE = timedelta(days=30)


def approve(session: Session, assignment: Assignment, hit: Hit, now: datetime, feedback: str = "") -> None:
    """Pays the worker and the fee out of what was held for it."""
    _must_be(assignment, AssignmentStatus.SUBMITTED, "approved")
    _pay(session, hit, assignment, money.held(hit.requester_id), now)
    hit.held_cents -= hit.reward_cents + hit.fee_cents
    hit.undecided -= 1
    hit.completed += 1
    _approved(session, hit, assignment, now, feedback)


def reject(session: Session, assignment: Assignment, hit: Hit, now: datetime, feedback: str) -> None:
    """Pays nothing; what was held for it is the requester's again."""
    _must_be(assignment, AssignmentStatus.SUBMITTED, "rejected")
    assignment.status, assignment.rejected_at, assignment.feedback = AssignmentStatus.REJECTED, now, feedback
    hit.undecided -= 1
    hit.completed += 1
    session.get_one(Worker, assignment.worker_id).rejected += 1
    events.record(session, hit, "AssignmentRejected", now, assignment.id)
    standing.refresh(session, hit, now)
    session.flush()


def override(session: Session, assignment: Assignment, hit: Hit, now: datetime, feedback: str = "") -> None:
    """Pays after all for what was rejected, out of what the requester has; for 30 days, while the HIT is there."""
    _must_be(assignment, AssignmentStatus.REJECTED, "approved after a rejection")
    if hit.status is HitStatus.DISPOSED:
        raise MarketError("InvalidHITState", f"HIT {hit.id} was deleted; its rejections stand")
    if assignment.submitted_at is None or now - assignment.submitted_at > OVERRIDE:
        raise MarketError(
            "InvalidAssignmentState",
            f"assignment {assignment.id} was submitted more than {OVERRIDE.days} days ago; its rejection stands",
        )
    _pay(session, hit, assignment, money.available(hit.requester_id), now)
    session.get_one(Worker, assignment.worker_id).rejected -= 1
    assignment.rejected_at = None
    _approved(session, hit, assignment, now, feedback)


def _pay(session: Session, hit: Hit, assignment: Assignment, source: str, now: datetime) -> None:
    worker = money.worker(str(assignment.worker_id))
    payments = ((worker, hit.reward_cents, "reward"), (money.FEES, hit.fee_cents, "reward fee"))
    money.pay(session, source, payments, now, hit_id=hit.id, assignment_id=assignment.id)


def _approved(session: Session, hit: Hit, assignment: Assignment, now: datetime, feedback: str) -> None:
    assignment.status, assignment.approved_at, assignment.feedback = AssignmentStatus.APPROVED, now, feedback
    session.get_one(Worker, assignment.worker_id).approved += 1
    events.record(session, hit, "AssignmentApproved", now, assignment.id)
    standing.refresh(session, hit, now)
    session.flush()


def _must_be(assignment: Assignment, status: AssignmentStatus, done: str) -> None:
    if assignment.status is not status:
        raise MarketError(
            "InvalidAssignmentState",
            f"assignment {assignment.id} is {assignment.status} and cannot be {done}; it would have to be {status}",
        )
