"""Fair pay at a round's end: once all its work is decided, groups below the task's minimum are brought up to it.

Not before: a median goes by all who worked, and nobody gets a second top-up for the same work.
"""

from datetime import datetime

from sqlalchemy.orm import Session

from mturk.crowd import Crowd
from round_manager.crowd.debts import new_top_ups
from round_manager.crowd.wages import group_wages, owe_top_ups
from round_manager.loop.lifecycle import due
from round_manager.models import Round, RoundStatus, Task
from round_manager.specs import spec_of


def owe_fair_pay(session: Session, round: Round, crowd: Crowd, *, now: datetime) -> int:
    """Owes what the round's workers lack, where the round would close now; how many cents, without fees.

    A BudgetError where the budget does not cover it; the round stays as it is.
    """
    if not is_at_its_end(session, round, now=now):
        return 0
    return owe_top_ups(session, crowd, group_wages(session, session.get_one(Task, round.task_id), round=round), now=now)


def lacking_cents(session: Session, round: Round) -> int:
    """What the round's workers lack to the minimum and are not owed yet, without fees."""
    if not spec_of(round).pay.minimum_hourly_cents:
        return 0
    wages = group_wages(session, session.get_one(Task, round.task_id), round=round)
    return sum(sum(cents) for cents in new_top_ups(session, wages).values())


def is_at_its_end(session: Session, round: Round, *, now: datetime) -> bool:
    """Whether the round is one that closes with the next step."""
    step = due(session, round, now=now)
    return step is not None and step.to is RoundStatus.CLOSED
