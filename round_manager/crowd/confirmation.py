"""Confirmation: work on our pages counts once the marketplace shows who submitted the assignment.

Pages only claim an assignment and a worker. When the marketplace lists the assignment, the session with the same HIT,
assignment and worker is confirmed, whether or not its page was finished. Sessions of other claimants stay unconfirmed.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.database.columns import equals_unindexed
from round_manager.errors import VoteRefused
from round_manager.examples.votes import cast_vote, lock_examples
from round_manager.models import (
    Assignment,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    LeaseEnd,
    QuizResult,
    Round,
    SessionStatus,
    Source,
    Worker,
    WorkItem,
    WorkSession,
    spec_of,
)
from round_manager.money.bonuses import settle_bonuses
from round_manager.tasks.rounds import LIVE
from round_manager.work.leases import end_leases
from round_manager.work.reports import LONGEST_ACTOR

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


def confirm(session: Session, assignment: Assignment, *, now: datetime) -> WorkSession | None:
    """Confirm the session of an assignment: its examples wait for votes and its votes are cast.

    Return the session, or None if there is none. Repeating the call changes nothing.
    """
    return next(iter(confirm_sessions(session, [assignment], now=now)), None)


def confirm_sessions(session: Session, assignments: Sequence[Assignment], *, now: datetime) -> list[WorkSession]:
    """Confirm the sessions of several assignments, and return those that were found."""
    shown = {(one.hit_id, one.external_id): one for one in assignments}
    mine, claims = [], _claims(session, assignments)
    _lock_judged(session, claims)
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
    # A page that never reported its time has none, rather than 0.
    assignment.active_ms = work.active_ms or None
    session.flush()
    _accept_examples(session, work, now)
    _cast_votes(session, work, now)
    end_leases(session, [work.id], LeaseEnd.USED, now=now)


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
        Example.session_id == work.id,
        Example.session_id.is_not(None),
        Example.status == ExampleStatus.UNCONFIRMED,
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
