"""Operations on submitted assignments, bonuses and the account balance."""

from sqlalchemy import select

from mturk.marketplace import assignments, money
from mturk.marketplace.api.call import Call, Members, format_amount, parse_cents
from mturk.marketplace.api.hits import hit_members
from mturk.marketplace.errors import InvalidParameter
from mturk.marketplace.hits import check_range
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Bonus

SEEN = (AssignmentStatus.SUBMITTED, AssignmentStatus.APPROVED, AssignmentStatus.REJECTED)
LONGEST_FEEDBACK = 1024


def get_assignment(call: Call, members: Members) -> Members:
    """Return an assignment with its HIT."""
    assignment, hit, kind = call.assignment(members["AssignmentId"])
    return {"Assignment": assignment_members(assignment), "HIT": hit_members(hit, kind)}


def list_assignments_for_hit(call: Call, members: Members) -> Members:
    """List the submitted assignments of a HIT, in the order in which they were accepted."""
    hit, _ = call.hit(members["HITId"])
    statuses = [AssignmentStatus(status) for status in members.get("AssignmentStatuses") or SEEN]
    query = select(Assignment).where(Assignment.hit_id == hit.id, Assignment.status.in_(statuses))
    return call.page(
        query, Assignment.number, members, key="Assignments", render=lambda row: assignment_members(row[0])
    )


def approve_assignment(call: Call, members: Members) -> Members:
    """Approve an assignment; with OverrideRejection, also a rejected one."""
    assignment, hit, _ = call.assignment(members["AssignmentId"])
    feedback = _feedback(members)
    if assignment.status is AssignmentStatus.REJECTED and members.get("OverrideRejection"):
        assignments.override_rejection(call.session, assignment, hit, call.now, feedback)
    else:
        assignments.approve(call.session, assignment, hit, call.now, feedback)
    return {}


def reject_assignment(call: Call, members: Members) -> Members:
    """Reject an assignment, with a reason for the worker."""
    assignment, hit, _ = call.assignment(members["AssignmentId"])
    feedback = _feedback(members)
    if not feedback.strip():
        raise InvalidParameter("RequesterFeedback: tell the worker why the work is rejected")
    assignments.reject(call.session, assignment, hit, call.now, feedback)
    return {}


def assignment_members(assignment: Assignment) -> Members:
    """Return an assignment as members of a response."""
    return {
        "AssignmentId": assignment.id,
        "WorkerId": assignment.worker_id,
        "HITId": assignment.hit_id,
        "AssignmentStatus": str(assignment.status),
        "AutoApprovalTime": assignment.auto_approve_at,
        "AcceptTime": assignment.accepted_at,
        "SubmitTime": assignment.submitted_at,
        "ApprovalTime": assignment.approved_at,
        "RejectionTime": assignment.rejected_at,
        "Deadline": assignment.deadline,
        "Answer": assignment.answer,
        "RequesterFeedback": assignment.feedback or None,
    }


def _feedback(members: Members) -> str:
    feedback: str = members.get("RequesterFeedback", "")
    check_range("RequesterFeedback", len(feedback), 0, LONGEST_FEEDBACK, "characters")
    return feedback


def send_bonus(call: Call, members: Members) -> Members:
    """Pay a bonus, once for each token."""
    call.refuse_used_token(members)
    assignment, hit, _ = call.assignment(members["AssignmentId"])
    amount_cents = parse_cents(members["BonusAmount"], "BonusAmount")
    assignments.send_bonus(
        call.session, hit, assignment, members["WorkerId"], amount_cents, members["Reason"], call.now
    )
    call.record_token(members, call.request_id)
    return {}


def list_bonus_payments(call: Call, members: Members) -> Members:
    """List the bonuses of a HIT or of one assignment."""
    query = select(Bonus).where(Bonus.requester_id == call.requester.id)
    if "AssignmentId" in members:
        query = query.where(Bonus.assignment_id == call.assignment(members["AssignmentId"])[0].id)
    elif "HITId" in members:
        query = query.where(Bonus.hit_id == call.hit(members["HITId"])[0].id)
    else:
        raise InvalidParameter("either HITId or AssignmentId is required")
    return call.page(query, Bonus.number, members, key="BonusPayments", render=lambda row: _bonus(row[0]))


def _bonus(bonus: Bonus) -> Members:
    return {
        "WorkerId": bonus.worker_id,
        "BonusAmount": format_amount(bonus.cents),
        "AssignmentId": bonus.assignment_id,
        "Reason": bonus.reason,
        "GrantTime": bonus.paid_at,
    }


def get_account_balance(call: Call, _members: Members) -> Members:
    """Return what the requester can spend, and what is held for HITs."""
    return {
        "AvailableBalance": format_amount(money.balance(call.session, money.available(call.requester.id))),
        "OnHoldBalance": format_amount(money.balance(call.session, money.held(call.requester.id))),
    }
