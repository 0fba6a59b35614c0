"""The mirror: HITs and work as the marketplace tells them, written down as ours.

What was handed in becomes an Assignment of a Worker. What the marketplace has approved or rejected by itself, or by
another's hand, moves its money here too.
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
)
from round_manager.money.bonuses import settle_bonuses
from round_manager.money.ledger import confirm, owe_rewards, release, send
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
    hit.last_error = None


def mirror_works(session: Session, handed_in: Mapping[Hit, Sequence[SubmittedAssignment]], *, now: datetime) -> int:
    """Everything that was handed in for the HITs, as it stands; how many pieces were new."""
    found = [(hit, work) for hit, works in handed_in.items() for work in works]
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
    # Where somebody was about to pay it, that entry is its own, and what it had reserved is settled with it.
    own = select(LedgerEntry.id).where(LedgerEntry.assignment_id == assignment.id, LedgerEntry.kind == EntryKind.REWARD)
    if session.scalar(own.limit(1)) is None:
        release(session, [hit.id], EntryKind.REWARD, 1, now=now)
    settle_bonuses(session, [hit], now=now)


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
    settle_bonuses(session, done, now=now)
    release(session, [hit.id for hit in done], EntryKind.REWARD, now=now)
    return len(done)


def is_over(posted: PostedHit) -> bool:
    """Whether nobody works on the HIT and nobody can begin to."""
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


def _approved(session: Session, approved: Sequence[tuple[Assignment, SubmittedAssignment]], now: datetime) -> None:
    """Approved by the marketplace's own clock, or by somebody there: the reward is paid, so the ledger says so."""
    if not approved:
        return
    try:
        with session.begin_nested():
            entries = owe_rewards(session, [ours for ours, _ in approved], now=now)
    except BudgetError:
        # Work that nobody here planned for, in a HIT that grew elsewhere: only that waits, and nothing else.
        for one in approved:
            _approved_if_covered(session, one, now)
        return
    send(session, [entry for entry in entries.values() if entry.state is EntryState.OWED], now=now)
    confirm(session, [entry.id for entry in entries.values()], now=now)
    for ours, work in approved:
        mark_approved(ours, BY_MARKETPLACE, now=work.decided_at or now)


def _approved_if_covered(session: Session, one: tuple[Assignment, SubmittedAssignment], now: datetime) -> None:
    ours, _ = one
    try:
        with session.begin_nested():
            owe_rewards(session, [ours], now=now)
    except BudgetError as error:
        # It is paid there and cannot be written down here: told until the budget is raised, and then it is.
        session.get_one(Hit, ours.hit_id).last_error = f"{ours.external_id} was approved on the marketplace; {error}"
        return
    _approved(session, [one], now)
