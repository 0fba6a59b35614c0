"""Confirmation: assignments as the marketplace lists them; work on our pages counts once it shows who submitted it.

Approvals and rejections that were made on the marketplace, automatically or by hand, move the money in the ledger too.

Pages only claim an assignment and a worker. When the marketplace lists the assignment, the session with the same HIT,
assignment and worker is confirmed, whether or not its page was finished. Sessions of other claimants stay unconfirmed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import Session

from crowd.port import AssignmentState, SubmittedAssignment
from round_manager import audit
from round_manager.crowd.credited_time import credit_time, lock_workers
from round_manager.database.columns import equals_unindexed
from round_manager.errors import BudgetError, VoteRefused
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    LeaseEnd,
    LedgerEntry,
    QuizResult,
    Round,
    SessionStatus,
    Source,
    Worker,
    WorkItem,
    WorkSession,
    ensure_worker,
    spec_of,
)
from round_manager.money.bonuses import settle_bonuses
from round_manager.money.ledger import confirm, owe_rewards, release, send
from round_manager.novelty.decisions import decide, decide_again
from round_manager.novelty.known_texts import lock_texts
from round_manager.tasks.rounds import LIVE, NOT_COUNTED
from round_manager.validation.decisions import settle_bonuses_of
from round_manager.work.leases import end_leases
from round_manager.work.reports import LONGEST_ACTOR
from round_manager.work.validation_work import cast_vote, lock_examples

BY_MARKETPLACE = "marketplace"
NO_FEEDBACK = "rejected on the marketplace, with no reason"
CLOSED = "the round was closed before the assignment was collected"
# An answer to a gold item is not a vote.
IS_VOTE = (
    WorkItem.example_id.is_not(None),
    WorkItem.judgement.is_not(None),
    WorkItem.expected_label.is_(None),
    WorkItem.expected_answer.is_(None),
)
SAME = "its author has already submitted the same text in this round"
SAME_CONTEXT = "its author has already submitted another example for the same context"


def store_works(session: Session, submitted: Mapping[Hit, Sequence[SubmittedAssignment]], *, now: datetime) -> int:
    """Store the submitted assignments of a marketplace's HITs, and return how many were new."""
    lock_texts(session, [hit.task_id for hit in submitted])
    found = [(hit, work) for hit, works in submitted.items() for work in works]
    wanted = select(Assignment).where(
        Assignment.marketplace.in_({hit.marketplace for hit, _ in found}),
        Assignment.external_id.in_([work.assignment_id for _, work in found]),
    )
    known = {row.external_id: row for row in session.scalars(wanted)}
    new = [(hit, work) for hit, work in found if work.assignment_id not in known]
    known |= _added(session, new, now)
    approved: list[tuple[Assignment, SubmittedAssignment]] = []
    for _, work in found:
        ours = known[work.assignment_id]
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
    """Mark an assignment as rejected on the marketplace, and release its reward and its possible bonuses.

    Its texts no longer keep those of other workers from being new.
    """
    hit = session.get_one(Hit, assignment.hit_id)
    lock_texts(session, [hit.task_id])
    assignment.status, assignment.reason = AssignmentStatus.REJECTED, reason
    assignment.decided_at, assignment.decided_by = decided_at, by
    session.flush()
    pages = select(WorkSession.id).where(WorkSession.assignment_id == assignment.id)
    examples = select(Example).where(Example.session_id.in_(pages), Example.status.not_in(NOT_COUNTED))
    changed = decide_again(session, session.scalars(examples.order_by(Example.id)).all())
    # If a payment was already under way, its entry belongs to the assignment and is settled on its own.
    own = select(LedgerEntry.id).where(LedgerEntry.assignment_id == assignment.id, LedgerEntry.kind == EntryKind.REWARD)
    if session.scalar(own.limit(1)) is None:
        release(session, [hit.id], EntryKind.REWARD, 1, now=now)
    settle_bonuses(session, [hit], now=now)
    settle_bonuses_of(session, changed, now=now)


def _added(session: Session, new: Sequence[tuple[Hit, SubmittedAssignment]], now: datetime) -> dict[str, Assignment]:
    # In one order, so that no two processes wait for each other's new workers.
    places = sorted({(hit.marketplace, work.worker_id) for hit, work in new})
    workers = {place: ensure_worker(session, *place, now=now).id for place in places}
    rows = {
        work.assignment_id: Assignment(
            hit_id=hit.id,
            worker_id=workers[hit.marketplace, work.worker_id],
            marketplace=hit.marketplace,
            external_id=work.assignment_id,
            status=AssignmentStatus.SUBMITTED,
            accepted_at=work.accepted_at,
            submitted_at=work.submitted_at,
            auto_approve_at=work.auto_approve_at,
        )
        for hit, work in new
    }
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
    except BudgetError as error:
        if len(approved) > 1:
            # A HIT was extended on the marketplace, and its extra work was not reserved: only that work waits.
            for one in approved:
                _record_approved(session, [one], now)
            return
        # It is paid there but not covered here: the error stays until the budget is raised.
        ours, _ = approved[0]
        session.get_one(Hit, ours.hit_id).last_error = f"{ours.external_id} was approved on the marketplace; {error}"
        return
    send(session, [entry for entry in entries.values() if entry.state is EntryState.OWED], now=now)
    confirm(session, [entry.id for entry in entries.values()], now=now)
    for ours, work in approved:
        mark_approved(ours, BY_MARKETPLACE, now=work.decided_at or now)


def confirm_sessions(session: Session, assignments: Sequence[Assignment], *, now: datetime) -> list[WorkSession]:
    """Confirm the sessions of several assignments, and return those that were found."""
    shown = {(one.hit_id, one.external_id): one for one in assignments}
    mine, claims = [], _claims(session, assignments)
    _lock_judged(session, claims)
    _credit(session, assignments, claims)
    for work in claims:
        assignment = shown.get((work.hit_id, work.claimed_assignment))
        if assignment is None:
            continue
        if work.worker_id == assignment.worker_id:
            _confirm(session, work, assignment, now)
            mine.append(work)
        elif work.status is not SessionStatus.UNCONFIRMED:
            work.status, work.submitted_at = SessionStatus.UNCONFIRMED, work.submitted_at or now
            end_leases(session, [work.id], LeaseEnd.RETURNED, now=now)
    session.flush()
    # Examples that did not fool the model, and examples that were not written, earn no bonus.
    hits = session.scalars(select(Hit).where(Hit.id.in_({work.hit_id for work in mine})).order_by(Hit.id))
    settle_bonuses(session, hits, now=now)
    return mine


def _confirm(session: Session, work: WorkSession, assignment: Assignment, now: datetime) -> None:
    if work.status is SessionStatus.CONFIRMED:
        return
    work.submitted_at = work.submitted_at or assignment.submitted_at or now
    work.status, work.assignment_id = SessionStatus.CONFIRMED, assignment.id
    session.flush()
    _accept_examples(session, work, now)
    _cast_votes(session, work, now)
    end_leases(session, [work.id], LeaseEnd.USED, now=now)


def _credit(session: Session, assignments: Sequence[Assignment], claims: Sequence[WorkSession]) -> None:
    """Credit the time of assignments that were not credited yet, before their examples and votes count."""
    lock_workers(session, {one.worker_id for one in assignments})
    claimed = {(work.hit_id, work.claimed_assignment, work.worker_id): work for work in claims}
    new = [one for one in assignments if one.active_ms is None]
    pages = {one.id: claimed.get((one.hit_id, one.external_id, one.worker_id)) for one in new}
    credit_time(session, new, {number: page for number, page in pages.items() if page is not None})


def _claims(session: Session, assignments: Sequence[Assignment]) -> Sequence[WorkSession]:
    """Lock and return every session that claims these assignments, in an order that all callers follow."""
    claimed = select(WorkSession).where(
        WorkSession.hit_id.in_({one.hit_id for one in assignments}),
        WorkSession.claimed_assignment.in_([one.external_id for one in assignments]),
    )
    held = claimed.order_by(WorkSession.id).with_for_update(key_share=True)
    return session.scalars(held.execution_options(populate_existing=True)).all()


def _lock_judged(session: Session, claims: Sequence[WorkSession]) -> None:
    """Lock the judged examples before anything is written, to avoid a deadlock with other writers."""
    new = [work.id for work in claims if work.status is not SessionStatus.CONFIRMED]
    judged = select(WorkItem.example_id).where(WorkItem.session_id.in_(new), *IS_VOTE)
    lock_examples(session, [one for one in session.scalars(judged) if one is not None])


def _accept_examples(session: Session, work: WorkSession, now: datetime) -> None:
    written = select(Example).where(
        Example.session_id == work.id, Example.session_id.is_not(None), Example.status == ExampleStatus.UNCONFIRMED
    )
    for example in session.scalars(written.order_by(Example.item)).all():
        if session.get_one(Round, example.round_id).status not in LIVE:
            _note(session, work, "came too late", CLOSED, now, example=example.id)
        elif why := _why_withdrawn(session, example):
            example.status, example.decided_at, example.votes_wanted = ExampleStatus.WITHDRAWN, now, 0
            _note(session, work, "withdrew", why, now, example=example.id)
        else:
            # Whether it is validated was drawn, by its id, when it was submitted.
            example.status = ExampleStatus.PENDING if example.votes_wanted else ExampleStatus.UNCHECKED
            session.flush()
            decide(session, example)
        session.flush()


def _why_withdrawn(session: Session, example: Example) -> str:
    counted = select(Example.id).where(
        Example.author_id == example.author_id,
        Example.status.not_in((ExampleStatus.UNCONFIRMED, ExampleStatus.WITHDRAWN)),
    )
    same = counted.where(
        Example.task_id == example.task_id,
        Example.content_sha256 == example.content_sha256,
        Example.round_id == example.round_id,
    )
    if session.scalar(same.limit(1)) is not None:
        return SAME
    # An expired page does not count, and its worker may have used the context again since.
    if spec_of(session.get_one(Round, example.round_id)).work.repeat_context or example.context_id is None:
        return ""
    of_context = counted.where(
        equals_unindexed(Example.context_id, example.context_id),
        or_(Example.session_id.is_(None), Example.session_id != example.session_id),
    )
    return SAME_CONTEXT if session.scalar(of_context.limit(1)) is not None else ""


def _cast_votes(session: Session, work: WorkSession, now: datetime) -> None:
    cast = select(WorkItem).where(WorkItem.session_id == work.id, *IS_VOTE).order_by(WorkItem.item)
    for row in session.scalars(cast).all():
        example = session.get_one(Example, row.example_id)
        at = row.judged_at or now
        try:
            cast_vote(
                session,
                example,
                work.worker_id,
                source=Source.PAGES,
                voted_at=at,
                session_id=work.id,
                item=row.item,
                active_ms=row.active_ms,
                **(row.judgement or {}),
            )
        except VoteRefused as error:
            _note(session, work, "could not vote", str(error), now, example=example.id, item=row.item)


def _note(session: Session, work: WorkSession, action: str, reason: str, now: datetime, **about: int) -> None:
    hit = session.get_one(Hit, work.hit_id)
    who = session.get_one(Worker, work.worker_id).external_id[:LONGEST_ACTOR]
    after = {"session": str(work.public_id), **about}
    audit.note(session, action, hit, actor=who, reason=reason, now=now, of=hit, after=after)


def is_page_finished() -> ColumnElement[bool]:
    """Return the SQL condition that an assignment's page is confirmed and complete, or that its round is over.

    A worker who accepted a HIT can submit it directly on the marketplace; only our pages know whether work was done.
    """
    mine = (
        WorkSession.assignment_id == Assignment.id,
        WorkSession.worker_id == Assignment.worker_id,
        WorkSession.status == SessionStatus.CONFIRMED,
    )
    # When a round closes, workers submit what they have.
    is_over = exists().where(Round.id == Hit.round_id, Round.status.not_in(LIVE)).correlate(Hit)
    return exists().where(*mine, or_(_is_complete(), is_over)).correlate(Assignment, Hit)


def _is_complete() -> ColumnElement[bool]:
    taken = exists().where(QuizResult.session_id == WorkSession.id)
    unjudged = exists().where(WorkItem.session_id == WorkSession.id, WorkItem.judgement.is_(None))
    written = select(Example.id).where(
        Example.session_id == WorkItem.session_id, Example.session_id.is_not(None), Example.item == WorkItem.item
    )
    unwritten = exists().where(WorkItem.session_id == WorkSession.id, ~written.exists())
    return or_(
        and_(Hit.kind == HitKind.QUIZ, taken),
        and_(Hit.kind == HitKind.VALIDATE, ~unjudged),
        and_(Hit.kind == HitKind.CREATE, ~unwritten),
    )
