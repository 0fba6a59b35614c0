"""Assignments: given to a worker, returned, approved, rejected, and rewarded with a bonus."""

from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from mturk.marketplace import money
from mturk.marketplace.errors import InvalidParameter, InvalidState
from mturk.marketplace.hits import LARGEST_REWARD_CENTS, check_range, record_event, update_state
from mturk.marketplace.tables.base import entity_id
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Bonus, Hit, HitStatus, ReturnedHit, SubmitPass
from mturk.profile import MTURK

OVERRIDE_PERIOD = timedelta(days=30)


def assign(session: Session, hit: Hit, worker: Worker, seconds: int, now: datetime) -> Assignment:
    """Give this worker an assignment of the HIT: one that was returned, or a new one."""
    free = select(Assignment).where(Assignment.hit_id == hit.id, Assignment.status == AssignmentStatus.FREE)
    assignment = session.scalars(free.order_by(Assignment.number).limit(1)).one_or_none()
    deadline = now + timedelta(seconds=seconds)
    if assignment is None:
        assignment = Assignment(
            id=entity_id(),
            hit_id=hit.id,
            status=AssignmentStatus.ACCEPTED,
            worker_id=worker.id,
            accepted_at=now,
            deadline=deadline,
        )
        session.add(assignment)
    else:
        assignment.status = AssignmentStatus.ACCEPTED
        assignment.worker_id, assignment.accepted_at, assignment.deadline = worker.id, now, deadline
    hit.pending += 1
    record_event(session, hit, "AssignmentAccepted", now, assignment.id)
    update_state(session, hit, now)
    session.flush()
    return assignment


def release(session: Session, assignment: Assignment, now: datetime, *, abandoned: bool) -> None:
    """Make an accepted assignment available again; remember its worker, so that others get it first."""
    hit = session.scalars(select(Hit).where(Hit.id == assignment.hit_id)).one()
    at = assignment.deadline if abandoned and assignment.deadline else now
    session.add(
        ReturnedHit(
            worker_id=str(assignment.worker_id),
            hit_id=hit.id,
            assignment_id=assignment.id,
            abandoned=abandoned,
            passed_at=at,
        )
    )
    session.execute(delete(SubmitPass).where(SubmitPass.assignment_id == assignment.id))
    assignment.status = AssignmentStatus.FREE
    assignment.worker_id = assignment.accepted_at = assignment.deadline = None
    hit.pending -= 1
    record_event(session, hit, "AssignmentAbandoned" if abandoned else "AssignmentReturned", at, assignment.id)
    update_state(session, hit, now)
    session.flush()


def approve(session: Session, assignment: Assignment, hit: Hit, now: datetime, feedback: str = "") -> None:
    """Approve submitted work: pay the reward and the fee from what was held for it."""
    _check_status(assignment, AssignmentStatus.SUBMITTED, "approved")
    _pay_reward(session, hit, assignment, money.held(hit.requester_id), now)
    hit.held_cents -= hit.reward_cents + hit.fee_cents
    hit.undecided -= 1
    hit.completed += 1
    _set_approved(session, hit, assignment, now, feedback)


def reject(session: Session, assignment: Assignment, hit: Hit, now: datetime, feedback: str) -> None:
    """Reject submitted work: pay nothing, and return what was held for it to the requester."""
    _check_status(assignment, AssignmentStatus.SUBMITTED, "rejected")
    assignment.status, assignment.rejected_at, assignment.feedback = AssignmentStatus.REJECTED, now, feedback
    hit.undecided -= 1
    hit.completed += 1
    session.get_one(Worker, assignment.worker_id).rejected += 1
    record_event(session, hit, "AssignmentRejected", now, assignment.id)
    update_state(session, hit, now)
    session.flush()


def override_rejection(session: Session, assignment: Assignment, hit: Hit, now: datetime, feedback: str = "") -> None:
    """Pay for rejected work from the requester's balance; possible for 30 days, until the HIT is deleted."""
    _check_status(assignment, AssignmentStatus.REJECTED, "approved after a rejection")
    if hit.status is HitStatus.DISPOSED:
        raise InvalidState("InvalidHITState", f"HIT {hit.id} was deleted; its rejections are final")
    if assignment.submitted_at is None or now - assignment.submitted_at > OVERRIDE_PERIOD:
        days = OVERRIDE_PERIOD.days
        raise InvalidState(
            "InvalidAssignmentState",
            f"assignment {assignment.id} was submitted more than {days} days ago; its rejection is final",
        )
    _pay_reward(session, hit, assignment, money.available(hit.requester_id), now)
    session.get_one(Worker, assignment.worker_id).rejected -= 1
    assignment.rejected_at = None
    _set_approved(session, hit, assignment, now, feedback)


def send_bonus(
    session: Session, hit: Hit, assignment: Assignment, worker_id: str, cents: int, reason: str, now: datetime
) -> Bonus:
    """Pay a bonus and its fee from the requester's balance to the worker of the assignment."""
    check_range("BonusAmount", cents, 1, LARGEST_REWARD_CENTS, "cents")
    if not reason.strip():
        raise InvalidParameter("Reason: tell the worker what the bonus is for")
    if assignment.worker_id != worker_id:
        raise InvalidState(
            "InvalidAssignmentState", f"assignment {assignment.id} was not submitted by worker {worker_id}"
        )
    fee = MTURK.fees.bonus(cents).fee_cents
    payments = ((money.worker(worker_id), cents, "bonus"), (money.FEES, fee, "bonus fee"))
    source = money.available(hit.requester_id)
    money.pay(session, source, payments, now, hit_id=hit.id, assignment_id=assignment.id)
    bonus = Bonus(
        requester_id=hit.requester_id,
        worker_id=worker_id,
        hit_id=hit.id,
        assignment_id=assignment.id,
        cents=cents,
        fee_cents=fee,
        reason=reason,
        paid_at=now,
    )
    session.add(bonus)
    session.flush()
    return bonus


def _pay_reward(session: Session, hit: Hit, assignment: Assignment, source: str, now: datetime) -> None:
    worker = money.worker(str(assignment.worker_id))
    payments = ((worker, hit.reward_cents, "reward"), (money.FEES, hit.fee_cents, "reward fee"))
    money.pay(session, source, payments, now, hit_id=hit.id, assignment_id=assignment.id)


def _set_approved(session: Session, hit: Hit, assignment: Assignment, now: datetime, feedback: str) -> None:
    assignment.status, assignment.approved_at, assignment.feedback = AssignmentStatus.APPROVED, now, feedback
    session.get_one(Worker, assignment.worker_id).approved += 1
    record_event(session, hit, "AssignmentApproved", now, assignment.id)
    update_state(session, hit, now)
    session.flush()


def _check_status(assignment: Assignment, needed: AssignmentStatus, action: str) -> None:
    if assignment.status is not needed:
        raise InvalidState(
            "InvalidAssignmentState",
            f"assignment {assignment.id} is {assignment.status} and cannot be {action}; it has to be {needed}",
        )
