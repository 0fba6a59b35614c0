"""Confirming: the marketplace shows who handed in an assignment, and only now does their work count.

Whatever was handed in on the page of the same HIT, assignment and worker becomes theirs, whether or not we heard the
end of it. Whoever else claimed the assignment stays unconfirmed, with all that they wrote.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.database.columns import equals_unindexed
from round_manager.errors import VoteRefused
from round_manager.examples.submissions import TAKES_WORK
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
)
from round_manager.money.bonuses import settle_bonuses
from round_manager.specs import spec_of
from round_manager.tasks.rounds import LIVE
from round_manager.work.leases import end_leases
from round_manager.work.reports import LONGEST_ACTOR

CLOSED = "the round was closed before the marketplace told of it"
# What a known answer is held against is no vote.
IS_VOTE = (
    WorkItem.example_id.is_not(None),
    WorkItem.judgement.is_not(None),
    WorkItem.expected_label.is_(None),
    WorkItem.expected_answer.is_(None),
)
SAME = "its author has handed in the same text in this round already"
SAME_CONTEXT = "its author has handed in another example on the same context already"


def confirm(session: Session, assignment: Assignment, *, now: datetime) -> WorkSession | None:
    """The session that the assignment was done in, its examples waiting for votes and its votes cast; None without one.

    Once more changes nothing.
    """
    return next(iter(confirm_sessions(session, [assignment], now=now)), None)


def confirm_sessions(session: Session, assignments: Sequence[Assignment], *, now: datetime) -> list[WorkSession]:
    """The same for a batch: the sessions that were found."""
    shown = {(one.hit_id, one.external_id): one for one in assignments}
    mine, claims = [], _claims(session, assignments)
    _hold_judged(session, claims)
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
    # What did not fool, and what was not written, earns nothing.
    hits = session.scalars(select(Hit).where(Hit.id.in_({work.hit_id for work in mine})).order_by(Hit.id))
    settle_bonuses(session, hits, now=now)
    return mine


def _confirm(session: Session, work: WorkSession, assignment: Assignment, now: datetime) -> None:
    if work.status is SessionStatus.CONFIRMED:
        return
    work.submitted_at = work.submitted_at or assignment.submitted_at or now
    work.status, work.assignment_id = SessionStatus.CONFIRMED, assignment.id
    # A page that never told of its time has none, not nought.
    assignment.active_ms = work.active_ms or None
    session.flush()
    _accept_examples(session, work, now)
    _cast_votes(session, work, now)
    end_leases(session, [work.id], LeaseEnd.USED, now=now)


def _claims(session: Session, assignments: Sequence[Assignment]) -> Sequence[WorkSession]:
    """Every session on these assignments, whoever claimed them, held in an order that all follow."""
    claimed = select(WorkSession).where(
        WorkSession.hit_id.in_({one.hit_id for one in assignments}),
        WorkSession.claimed_assignment.in_([one.external_id for one in assignments]),
    )
    held = claimed.order_by(WorkSession.id).with_for_update(key_share=True)
    return session.scalars(held.execution_options(populate_existing=True)).all()


def _hold_judged(session: Session, claims: Sequence[WorkSession]) -> None:
    """Before anything is written: whoever holds one of these examples may wait for what we are about to count."""
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
        if session.get_one(Round, example.round_id).status not in TAKES_WORK:
            _note(session, work, "came too late", CLOSED, now, example=example.id)
        elif why := _why_withdrawn(session, example):
            example.status, example.decided_at, example.votes_wanted = ExampleStatus.WITHDRAWN, now, 0
            _note(session, work, "withdrew", why, now, example=example.id)
        else:
            # Whether it is checked was drawn, by its id, when it was handed in.
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
    # A page whose time was over counts for nobody, and its worker may have written on the context again since.
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


def _note(session: Session, work: WorkSession, action: str, why: str, now: datetime, **about: int) -> None:
    hit = session.get_one(Hit, work.hit_id)
    who = session.get_one(Worker, work.worker_id).external_id[:LONGEST_ACTOR]
    after = {"session": str(work.public_id), **about}
    audit.note(session, action, hit, who=who, why=why, now=now, of=hit, after=after)


def is_page_finished() -> ColumnElement[bool]:
    """Of an assignment and its HIT: whether its worker's page is confirmed and lacks nothing, or its round is over."""
    mine = (
        WorkSession.assignment_id == Assignment.id,
        WorkSession.worker_id == Assignment.worker_id,
        WorkSession.status == SessionStatus.CONFIRMED,
    )
    # Who was at work when their round was closed hands in what they have.
    is_over = exists().where(Round.id == Hit.round_id, Round.status.not_in(LIVE)).correlate(Hit)
    return exists().where(*mine, or_(_lacks_nothing(), is_over)).correlate(Assignment, Hit)


def _lacks_nothing() -> ColumnElement[bool]:
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
