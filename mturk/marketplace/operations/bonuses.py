"""Bonuses."""

from sqlalchemy import select

from mturk.marketplace import bonuses, tokens
from mturk.marketplace.errors import bad_parameter
from mturk.marketplace.operations.call import Call, Members, Operation, amount, cents
from mturk.marketplace.tables import Bonus


def send_bonus(call: Call, members: Members) -> Members:
    """Pays a bonus, once for each token."""
    token = members.get("UniqueRequestToken")
    tokens.refuse_repeat(call.session, call.requester.id, call.operation, token, call.now)
    assignment, hit, _ = call.work(members["AssignmentId"])
    value = cents(members["BonusAmount"], "BonusAmount")
    bonuses.send(call.session, hit, assignment, members["WorkerId"], value, members["Reason"], call.now)
    tokens.remember(call.session, call.requester.id, call.operation, token, call.request_id, call.now)
    return {}


def list_bonus_payments(call: Call, members: Members) -> Members:
    """The bonuses of a HIT or of one assignment."""
    query = select(Bonus).where(Bonus.requester_id == call.requester.id)
    if "AssignmentId" in members:
        query = query.where(Bonus.assignment_id == call.work(members["AssignmentId"])[0].id)
    elif "HITId" in members:
        query = query.where(Bonus.hit_id == call.hit(members["HITId"])[0].id)
    else:
        raise bad_parameter("either HITId or AssignmentId is required")
    return call.page(query, Bonus.number, members, key="BonusPayments", render=lambda row: _bonus(row[0]))


def _bonus(bonus: Bonus) -> Members:
    return {
        "WorkerId": bonus.worker_id,
        "BonusAmount": amount(bonus.cents),
        "AssignmentId": bonus.assignment_id,
        "Reason": bonus.reason,
        "GrantTime": bonus.paid_at,
    }


READS: dict[str, Operation] = {"ListBonusPayments": list_bonus_payments}
WRITES: dict[str, Operation] = {"SendBonus": send_bonus}
