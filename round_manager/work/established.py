"""Established validators: many votes in a task, and right on gold often enough.

Label Studio shows no gold. Its users are the owner's own people, whose accounts the owner gave them, so their votes
count as those of established validators.
"""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from round_manager.models import (
    Example,
    ExampleStatus,
    GoldShowing,
    Hit,
    Round,
    Source,
    Task,
    Vote,
    WorkSession,
    spec_of,
)
from round_manager.work.gold import each_answer_of

# With fewer gold items, accuracy says little.
LEAST_GOLD = 5


def counts_as_established(session: Session, round: Round, worker_id: int, source: Source) -> bool | None:
    """Return whether a vote that is stored now is an established validator's; None if the round does not ask for it."""
    if not spec_of(round).validation.established_votes:
        return None
    return source is Source.LABEL_STUDIO or is_established(session, round, worker_id)


def is_established(session: Session, round: Round, worker_id: int) -> bool:
    """Return whether the worker is an established validator now, by the terms of the round.

    Votes are in the round's task, and gold is what they judged on confirmed pages.
    """
    terms = spec_of(round).validation
    votes = select(Vote.id).join(Example, Example.id == Vote.example_id)
    votes = votes.where(Vote.worker_id == worker_id, Example.task_id == round.task_id)
    counted = select(func.count()).select_from(votes.limit(terms.established_after).subquery())
    if (session.scalar(counted) or 0) < terms.established_after:
        return False
    answers = list(each_answer_of(session, session.get_one(Task, round.task_id), worker_id))
    return len(answers) >= LEAST_GOLD and sum(answers) >= terms.established_accuracy * len(answers)


def anyone_established(session: Session, round: Round) -> bool:
    """Return whether the task has an established validator on worker pages, by the terms of the round."""
    return any(is_established(session, round, worker_id) for worker_id in _candidates(session, round))


def votes_kept(round: Round) -> ColumnElement[int]:
    """Return how many votes of an example only established validators can still give; the round must ask for them."""
    needed = spec_of(round).validation.established_votes
    given = select(func.count()).where(Vote.example_id == Example.id, Vote.established.is_(True)).scalar_subquery()
    return case((given < needed, needed - given), else_=0)


def awaiting_established(session: Session, round: Round, most: int) -> int:
    """Return how many pending examples, up to `most`, lack no other vote than an established validator's."""
    if not spec_of(round).validation.established_votes:
        return 0
    votes = select(func.count()).where(Vote.example_id == Example.id).scalar_subquery()
    kept, lacking = votes_kept(round), Example.votes_wanted - votes
    waiting = select(Example.id).where(Example.round_id == round.id, Example.status == ExampleStatus.PENDING)
    waiting = waiting.where(lacking > 0, lacking <= kept).limit(most)
    return session.scalar(select(func.count()).select_from(waiting.subquery())) or 0


def _candidates(session: Session, round: Round) -> Iterator[int]:
    """Yield the workers who have seen enough gold of the task, those who have seen most of it first."""
    seen = (
        select(GoldShowing.worker_id)
        .join(WorkSession, WorkSession.id == GoldShowing.session_id)
        .join(Hit, Hit.id == WorkSession.hit_id)
        .where(Hit.task_id == round.task_id)
        .group_by(GoldShowing.worker_id)
        .having(func.count() >= LEAST_GOLD)
        .order_by(func.count().desc(), GoldShowing.worker_id)
    )
    yield from session.scalars(seen).all()
