"""Established validators: many votes in a task, and right on gold often enough."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.models import Example, Round, Task, Vote, spec_of
from round_manager.work.gold import each_answer_of

# With fewer gold items, accuracy says little.
LEAST_GOLD = 5


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
