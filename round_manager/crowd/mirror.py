"""The mirror: stores HITs and assignments as the marketplace reports them.

A submitted assignment becomes an Assignment of a Worker. Approvals and rejections that were made on the marketplace,
automatically or by hand, move the money in the ledger too.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from crowd.port import AssignmentState, HitState, PostedHit, SubmittedAssignment
from round_manager.crowd.confirmation import confirm_sessions
from round_manager.errors import BudgetError
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Hit,
    HitStatus,
    LedgerEntry,
    ensure_worker,
)
from round_manager.money.bonuses import settle_bonuses
from round_manager.money.ledger import confirm, owe_rewards, release, send

BY_MARKETPLACE = "marketplace"
NO_FEEDBACK = "rejected on the marketplace, with no reason"
DECIDED = (AssignmentStatus.APPROVED, AssignmentStatus.REJECTED)
HANDED_IN = (AssignmentStatus.SUBMITTED, *DECIDED)
OVER = (HitState.REVIEWABLE, HitState.REVIEWING, HitState.DISPOSED)


def mirror_hit(hit: Hit, posted: PostedHit) -> None:
    """Update a HIT's status, expiration and size."""
    hit.status = HitStatus(posted.state.value)
    hit.expires_at = posted.expires_at
    hit.max_assignments = posted.max_assignments
    hit.last_error = None


def mirror_works(session: Session, submitted: Mapping[Hit, Sequence[SubmittedAssignment]], *, now: datetime) -> int:
    """Store the submitted assignments of these HITs, and return how many were new."""
    found = [(hit, work) for hit, works in submitted.items() for work in works]
    known = _known(session, found)
    new = [(hit, work) for hit, work in found if (hit.marketplace, work.assignment_id) not in known]
    known |= _added(session, new, now)
    approved: list[tuple[Assignment, SubmittedAssignment]] = []
    for hit, work in found:
        ours = known[hit.marketplace, work.assignment_id]
        if ours.status is AssignmentStatus.SUBMITTED and work.state is AssignmentState.REJECTED:
            mark_rejected(session, ours, work.feedback or NO_FEEDBACK, BY_MARKETPLACE, work.decided_at or now, now=now)
        elif ours.status is not AssignmentStatus.APPROVED and work.state is AssignmentState.APPROVED:
            approved.append((ours, work))
    _record_approved(session, approved, now)
    return len(new)


def mark_approved(assignment: Assignment, by: str, *, now: datetime) -> None:
    """Mark an assignment as approved on the marketplace."""
    if assignment.status is not AssignmentStatus.APPROVED:
        assignment.status, assignment.decided_at, assignment.decided_by = AssignmentStatus.APPROVED, now, by


def mark_rejected(
    session: Session, assignment: Assignment, reason: str, by: str, decided_at: datetime, *, now: datetime
) -> None:
    """Mark an assignment as rejected on the marketplace, and release its reward and its possible bonuses."""
    assignment.status, assignment.reason = AssignmentStatus.REJECTED, reason
    assignment.decided_at, assignment.decided_by = decided_at, by
    hit = session.get_one(Hit, assignment.hit_id)
    # If a payment was already under way, its entry belongs to the assignment and is settled on its own.
    own = select(LedgerEntry.id).where(LedgerEntry.assignment_id == assignment.id, LedgerEntry.kind == EntryKind.REWARD)
    if session.scalar(own.limit(1)) is None:
        release(session, [hit.id], EntryKind.REWARD, 1, now=now)
    settle_bonuses(session, [hit], now=now)


def finish(session: Session, hits: Collection[Hit], over: Collection[Hit], *, now: datetime) -> int:
    """Finish HITs that cannot get further work, release what was not submitted, and return how many there were.

    `over` are HITs without a worker that cannot be accepted; the others are finished once all their work is decided.
    """
    open_hits = [hit for hit in hits if hit.finished_at is None]
    counted = (
        select(Assignment.hit_id, Assignment.status, func.count().label("works"))
        .where(Assignment.hit_id.in_([hit.id for hit in open_hits]))
        .group_by(Assignment.hit_id, Assignment.status)
    )
    works = {(row.hit_id, row.status): int(row.works) for row in session.execute(counted)}
    done = []
    for hit in open_hits:
        decided = sum(works.get((hit.id, status), 0) for status in DECIDED)
        waiting = works.get((hit.id, AssignmentStatus.SUBMITTED), 0)
        if not waiting and (hit in over or decided >= hit.max_assignments):
            hit.finished_at = now
            done.append(hit)
    settle_bonuses(session, done, now=now)
    release(session, [hit.id for hit in done], EntryKind.REWARD, now=now)
    return len(done)


def is_over(posted: PostedHit) -> bool:
    """Return whether the HIT has no worker and can no longer be accepted."""
    return posted.state in OVER and posted.pending == 0


def _known(session: Session, found: Sequence[tuple[Hit, SubmittedAssignment]]) -> dict[tuple[str, str], Assignment]:
    wanted = select(Assignment).where(
        Assignment.marketplace.in_({hit.marketplace for hit, _ in found}),
        Assignment.external_id.in_([work.assignment_id for _, work in found]),
    )
    return {(row.marketplace, row.external_id): row for row in session.scalars(wanted)}


def _added(
    session: Session, new: Sequence[tuple[Hit, SubmittedAssignment]], now: datetime
) -> dict[tuple[str, str], Assignment]:
    workers = {
        place: ensure_worker(session, *place, now=now)
        for place in sorted({(hit.marketplace, work.worker_id) for hit, work in new})
    }
    rows = {}
    for hit, work in new:
        rows[hit.marketplace, work.assignment_id] = Assignment(
            hit_id=hit.id,
            worker_id=workers[hit.marketplace, work.worker_id].id,
            marketplace=hit.marketplace,
            external_id=work.assignment_id,
            status=AssignmentStatus.SUBMITTED,
            accepted_at=work.accepted_at,
            submitted_at=work.submitted_at,
            auto_approve_at=work.auto_approve_at,
        )
    session.add_all(rows.values())
    session.flush()
    confirm_sessions(session, list(rows.values()), now=now)
    return rows


def _record_approved(
    session: Session, approved: Sequence[tuple[Assignment, SubmittedAssignment]], now: datetime
) -> None:
    """Record rewards of assignments that were approved on the marketplace: they are paid already."""
    if not approved:
        return
    try:
        with session.begin_nested():
            entries = owe_rewards(session, [ours for ours, _ in approved], now=now)
    except BudgetError:
        # A HIT was extended on the marketplace, and its extra work was not reserved: only that work waits.
        for one in approved:
            _record_if_covered(session, one, now)
        return
    send(session, [entry for entry in entries.values() if entry.state is EntryState.OWED], now=now)
    confirm(session, [entry.id for entry in entries.values()], now=now)
    for ours, work in approved:
        mark_approved(ours, BY_MARKETPLACE, now=work.decided_at or now)


def _record_if_covered(session: Session, one: tuple[Assignment, SubmittedAssignment], now: datetime) -> None:
    ours, _ = one
    try:
        with session.begin_nested():
            owe_rewards(session, [ours], now=now)
    except BudgetError as error:
        # It is paid there but not covered here: the error stays until the budget is raised.
        session.get_one(Hit, ours.hit_id).last_error = f"{ours.external_id} was approved on the marketplace; {error}"
        return
    _record_approved(session, [one], now)
