"""Work that was handed in, and what requesters decide about it."""

from sqlalchemy import select

from mturk.marketplace import decisions
from mturk.marketplace.errors import bad_parameter
from mturk.marketplace.hits import within
from mturk.marketplace.operations.call import Call, Members, Operation
from mturk.marketplace.operations.hits import hit_members
from mturk.marketplace.tables import Assignment, AssignmentStatus

SEEN = (AssignmentStatus.SUBMITTED, AssignmentStatus.APPROVED, AssignmentStatus.REJECTED)
LONGEST_FEEDBACK = 1024


def get_assignment(call: Call, members: Members) -> Members:
    """One piece of work, with its HIT."""
    assignment, hit, kind = call.work(members["AssignmentId"])
    return {"Assignment": assignment_members(assignment), "HIT": hit_members(hit, kind)}


def list_assignments_for_hit(call: Call, members: Members) -> Members:
    """What was handed in for a HIT, in the order in which it was begun."""
    hit, _ = call.hit(members["HITId"])
    statuses = [AssignmentStatus(status) for status in members.get("AssignmentStatuses") or SEEN]
    query = select(Assignment).where(Assignment.hit_id == hit.id, Assignment.status.in_(statuses))
    return call.page(
        query, Assignment.number, members, key="Assignments", render=lambda row: assignment_members(row[0])
    )


def approve_assignment(call: Call, members: Members) -> Members:
    """Work is paid; with OverrideRejection also what was rejected."""
    assignment, hit, _ = call.work(members["AssignmentId"])
    feedback = _feedback(members)
    if assignment.status is AssignmentStatus.REJECTED and members.get("OverrideRejection"):
        decisions.override(call.session, assignment, hit, call.now, feedback)
    else:
        decisions.approve(call.session, assignment, hit, call.now, feedback)
    return {}


def reject_assignment(call: Call, members: Members) -> Members:
    """Work is not paid, for a reason that the worker reads."""
    assignment, hit, _ = call.work(members["AssignmentId"])
    feedback = _feedback(members)
    if not feedback.strip():
        raise bad_parameter("RequesterFeedback: tell the worker why the work is rejected")
    decisions.reject(call.session, assignment, hit, call.now, feedback)
    return {}


def assignment_members(assignment: Assignment) -> Members:
    """An assignment as requesters see it."""
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
    within("RequesterFeedback", len(feedback), 0, LONGEST_FEEDBACK, "characters")
    return feedback


READS: dict[str, Operation] = {
    "GetAssignment": get_assignment,
    "ListAssignmentsForHIT": list_assignments_for_hit,
}
WRITES: dict[str, Operation] = {
    "ApproveAssignment": approve_assignment,
    "RejectAssignment": reject_assignment,
}
