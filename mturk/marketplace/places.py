"""Places at HITs: taken by a worker, and free again after a return or when the time is over."""

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace import events, passes, standing
from mturk.marketplace.ids import entity_id
from mturk.marketplace.tables import Assignment, AssignmentStatus, Hit, Passed, Worker


def take(session: Session, hit: Hit, worker: Worker, seconds: int, now: datetime) -> Assignment:
    """A place for this worker: one that somebody gave back, or a new one."""
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
    events.record(session, hit, "AssignmentAccepted", now, assignment.id)
    standing.refresh(session, hit, now)
    session.flush()
    return assignment


def free(session: Session, assignment: Assignment, now: datetime, *, abandoned: bool) -> None:
    """The place is nobody's again; who had it is remembered, so that others come first."""
    hit = session.scalars(select(Hit).where(Hit.id == assignment.hit_id)).one()
    at = assignment.deadline if abandoned and assignment.deadline else now
    session.add(
        Passed(
            worker_id=str(assignment.worker_id),
            hit_id=hit.id,
            assignment_id=assignment.id,
            abandoned=abandoned,
            passed_at=at,
        )
    )
    passes.void(session, assignment.id)
    assignment.status = AssignmentStatus.FREE
    assignment.worker_id = assignment.accepted_at = assignment.deadline = None
    hit.pending -= 1
    events.record(session, hit, "AssignmentAbandoned" if abandoned else "AssignmentReturned", at, assignment.id)
    standing.refresh(session, hit, now)
    session.flush()
