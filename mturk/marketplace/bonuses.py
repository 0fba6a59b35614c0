"""Bonuses: paid at once to a worker who handed something in."""

from datetime import datetime

from sqlalchemy.orm import Session

from mturk.marketplace import money
from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.hits import LARGEST_REWARD_CENTS, within
from mturk.marketplace.tables import Assignment, Bonus, Hit
from mturk.profile import MTURK


def send(
    session: Session, hit: Hit, assignment: Assignment, worker_id: str, cents: int, reason: str, now: datetime
) -> Bonus:
    """Pays the worker and the fee out of what the requester has; the assignment has to be that worker's."""
    within("BonusAmount", cents, 1, LARGEST_REWARD_CENTS, "cents")
    if not reason.strip():
        raise bad_parameter("Reason: tell the worker what the bonus is for")
    if assignment.worker_id != worker_id:
        raise MarketError(
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
