"""The mirror: HITs and work as the marketplace tells them, written down as ours.

What was handed in becomes an Assignment of a Worker. What the marketplace has approved or rejected by itself, or by
another's hand, moves its money here too.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.crowd import HitState, PostedHit, Work, WorkState
from round_manager.ledger import confirm, owe_rewards, owed_entry, release, send
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


def mirror_hit(hit: Hit, posted: PostedHit) -> None:
    """Where the HIT is now, and until when."""
    hit.status = HitStatus(posted.state.value)
    hit.expires_at = posted.expires_at
    hit.max_assignments = posted.max_assignments


def mirror_works(session: Session, handed_in: Mapping[Hit, Sequence[Work]], *, now: datetime) -> int:
    """Everything that was handed in for the HITs, as it stands; how many pieces were new."""
    found = [(hit, work) for hit, works in handed_in.items() for work in works]
    known = _known(session, found)
    new = [(hit, work) for hit, work in found if (hit.marketplace, work.assignment_id) not in known]
    known |= _added(session, new, now)
    approved: list[tuple[Assignment, Work]] = []
    for hit, work in found:
        ours = known[hit.marketplace, work.assignment_id]
        if ours.status is AssignmentStatus.SUBMITTED and work.state is WorkState.REJECTED:
            mark_rejected(session, ours, work.feedback or NO_FEEDBACK, BY_MARKETPLACE, work.decided_at or now, now=now)
        elif ours.status is not AssignmentStatus.APPROVED and work.state is WorkState.APPROVED:
            approved.append((ours, work))
    _approved(session, approved, now)
    return len(new)


def mark_approved(assignment: Assignment, by: str, *, now: datetime) -> None:
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
        release(session, [hit.id], EntryKind.REWARD, 1, now=now)
    release(session, [hit.id], EntryKind.BONUS, _bonuses_each(session, hit), now=now)


def finish(session: Session, hits: Collection[Hit], over: Collection[Hit], *, now: datetime) -> int:
    """Closes the books of HITs that nothing more can come of; what nobody handed in is free again. How many they were.

    `over` are those of them that nobody works on and nobody can begin to; all others need all their work decided.
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
            if decided < hit.max_assignments:
                untaken = hit.max_assignments - decided
                release(session, [hit.id], EntryKind.BONUS, untaken * _bonuses_each(session, hit), now=now)
    release(session, [hit.id for hit in done], EntryKind.REWARD, now=now)
    return len(done)


def is_over(posted: PostedHit) -> bool:
    """Whether nobody works on the HIT and nobody can begin to."""
    return posted.state in OVER and posted.pending == 0


def _known(session: Session, found: Sequence[tuple[Hit, Work]]) -> dict[tuple[str, str], Assignment]:
    wanted = select(Assignment).where(
        Assignment.marketplace.in_({hit.marketplace for hit, _ in found}),
        Assignment.external_id.in_([work.assignment_id for _, work in found]),
    )
    return {(row.marketplace, row.external_id): row for row in session.scalars(wanted)}


def _added(session: Session, new: Sequence[tuple[Hit, Work]], now: datetime) -> dict[tuple[str, str], Assignment]:
    workers = {
        place: ensure_worker(session, *place, now=now)
        for place in sorted({(hit.marketplace, work.worker_id) for hit, work in new})
    }
    times = _active_times(session, new)
    rows = {}
    for hit, work in new:
        worker = workers[hit.marketplace, work.worker_id]
        rows[hit.marketplace, work.assignment_id] = Assignment(
            hit_id=hit.id,
            worker_id=worker.id,
            marketplace=hit.marketplace,
            external_id=work.assignment_id,
            status=AssignmentStatus.SUBMITTED,
            accepted_at=work.accepted_at,
            submitted_at=work.submitted_at,
            auto_approve_at=work.auto_approve_at,
            active_ms=times.get((hit.id, work.assignment_id, worker.id)),
        )
    session.add_all(rows.values())
    session.flush()
    return rows


def _active_times(session: Session, new: Sequence[tuple[Hit, Work]]) -> dict[tuple[int, str, int], int]:
    """How long workers were active on their pages, by HIT, assignment and worker."""
    pages = select(WorkSession).where(
        WorkSession.hit_id.in_({hit.id for hit, _ in new}),
        WorkSession.claimed_assignment.in_([work.assignment_id for _, work in new]),
        WorkSession.status != SessionStatus.EXPIRED,
    )
    return {(page.hit_id, page.claimed_assignment, page.worker_id): page.active_ms for page in session.scalars(pages)}


def _approved(session: Session, approved: Sequence[tuple[Assignment, Work]], now: datetime) -> None:
    """Approved by the marketplace's own clock, or by somebody there: the reward is paid, so the ledger says so."""
    if not approved:
        return
    entries = owe_rewards(session, [ours for ours, _ in approved], now=now)
    send(session, [entry for entry in entries.values() if entry.state is EntryState.OWED], now=now)
    confirm(session, [entry.id for entry in entries.values()], now=now)
    for ours, work in approved:
        mark_approved(ours, BY_MARKETPLACE, now=work.decided_at or now)


def _bonuses_each(session: Session, hit: Hit) -> int:
    """How many bonuses one assignment of the HIT can lead to."""
    every = select(func.count()).where(
        LedgerEntry.hit_id == hit.id, LedgerEntry.kind == EntryKind.BONUS, LedgerEntry.state != EntryState.REFUSED
    )
    return (session.scalar(every) or 0) // hit.max_assignments
