"""The mirror: HITs and work as the marketplace tells them, written down as ours.

What was handed in becomes an Assignment of a Worker. What the marketplace has approved or rejected by itself, or by
another's hand, moves its money here too.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.crowd import HitState, PostedHit, Work, WorkState
from round_manager.ledger import confirm, owe_reward, owed_entry, release, send
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Hit,
    HitStatus,
    LedgerEntry,
    SessionStatus,
    WorkSession,
)
from round_manager.workers import ensure_worker

BY_MARKETPLACE = "marketplace"
NO_FEEDBACK = "rejected on the marketplace, with no reason"
DECIDED = (AssignmentStatus.APPROVED, AssignmentStatus.REJECTED)
HANDED_IN = (AssignmentStatus.SUBMITTED, *DECIDED)
OVER = (HitState.REVIEWABLE, HitState.REVIEWING, HitState.DISPOSED)


def mirror_hit(session: Session, hit: Hit, posted: PostedHit) -> None:
    """Where the HIT is now, and until when."""
    hit.status = HitStatus(posted.state.value)
    hit.expires_at = posted.expires_at
    hit.max_assignments = posted.max_assignments


def mirror_works(session: Session, hit: Hit, works: Sequence[Work], *, now: datetime) -> int:
    """Everything that was handed in for the HIT, as it stands; how many pieces were new."""
    new = 0
    for work in works:
        known = session.scalar(
            select(Assignment).where(
                Assignment.marketplace == hit.marketplace, Assignment.external_id == work.assignment_id
            )
        )
        if known is None:
            known = _add(session, hit, work, now)
            new += 1
        if known.status is AssignmentStatus.SUBMITTED and work.state is WorkState.APPROVED:
            _approved(session, known, work, now)
        elif known.status is AssignmentStatus.SUBMITTED and work.state is WorkState.REJECTED:
            mark_rejected(session, known, work.feedback or NO_FEEDBACK, BY_MARKETPLACE, work.decided_at or now, now=now)
        elif known.status is AssignmentStatus.REJECTED and work.state is WorkState.APPROVED:
            _approved(session, known, work, now)
    return new


def mark_approved(session: Session, assignment: Assignment, by: str, *, now: datetime) -> None:
    """The marketplace has approved it."""
    if assignment.status is not AssignmentStatus.APPROVED:
        assignment.status, assignment.decided_at, assignment.decided_by = AssignmentStatus.APPROVED, now, by


def mark_rejected(
    session: Session, assignment: Assignment, reason: str, by: str, decided_at: datetime, *, now: datetime
) -> None:
    """The marketplace has rejected it: its reward, and the bonuses it could have led to, are free again."""
    assignment.status, assignment.reason = AssignmentStatus.REJECTED, reason
    assignment.decided_at, assignment.decided_by = decided_at, by
    hit = session.get_one(Hit, assignment.hit_id)
    if owed_entry(session, assignment, EntryKind.REWARD) is None:
        release(session, hit.id, EntryKind.REWARD, 1, now=now)
    release(session, hit.id, EntryKind.BONUS, _bonuses_each(session, hit), now=now)


def finish(session: Session, hit: Hit, *, nobody_works: bool, now: datetime) -> bool:
    """Closes the books of a HIT that nothing more can come of; what nobody handed in is free again."""
    if hit.finished_at is not None:
        return True
    counted = (
        select(Assignment.status, func.count().label("works"))
        .where(Assignment.hit_id == hit.id)
        .group_by(Assignment.status)
    )
    states = {row.status: int(row.works) for row in session.execute(counted)}
    decided = sum(states.get(state, 0) for state in DECIDED)
    if states.get(AssignmentStatus.SUBMITTED) or not (nobody_works or decided >= hit.max_assignments):
        return False
    release(session, hit.id, EntryKind.REWARD, now=now)
    untaken = hit.max_assignments - decided
    if untaken > 0:
        release(session, hit.id, EntryKind.BONUS, untaken * _bonuses_each(session, hit), now=now)
    hit.finished_at = now
    return True


def is_over(posted: PostedHit) -> bool:
    """Whether nobody works on the HIT and nobody can begin to."""
    return posted.state in OVER and posted.pending == 0


def _add(session: Session, hit: Hit, work: Work, now: datetime) -> Assignment:
    worker = ensure_worker(session, hit.marketplace, work.worker_id, now=now)
    page = session.scalar(
        select(WorkSession).where(
            WorkSession.hit_id == hit.id,
            WorkSession.claimed_assignment == work.assignment_id,
            WorkSession.worker_id == worker.id,
            WorkSession.status != SessionStatus.EXPIRED,
        )
    )
    added = Assignment(
        hit_id=hit.id,
        worker_id=worker.id,
        marketplace=hit.marketplace,
        external_id=work.assignment_id,
        status=AssignmentStatus.SUBMITTED,
        accepted_at=work.accepted_at,
        submitted_at=work.submitted_at,
        auto_approve_at=work.auto_approve_at,
        active_ms=page.active_ms if page else None,
    )
    session.add(added)
    session.flush()
    return added


def _approved(session: Session, assignment: Assignment, work: Work, now: datetime) -> None:
    """Approved by the marketplace's own clock, or by somebody there: the reward is paid, so the ledger says so."""
    entry = owe_reward(session, assignment, now=now)
    if entry.state is EntryState.OWED:
        send(session, [entry], now=now)
    confirm(session, [entry.id], now=now)
    mark_approved(session, assignment, BY_MARKETPLACE, now=work.decided_at or now)


def _bonuses_each(session: Session, hit: Hit) -> int:
    """How many bonuses one assignment of the HIT can lead to."""
    every = select(func.count()).where(
        LedgerEntry.hit_id == hit.id, LedgerEntry.kind == EntryKind.BONUS, LedgerEntry.state != EntryState.REFUSED
    )
    return (session.scalar(every) or 0) // hit.max_assignments
