"""The minimum for an hour: what a round's workers lack to it."""

from sqlalchemy.orm import Session

from round_manager.crowd.debts import new_top_ups
from round_manager.crowd.wages import group_wages
from round_manager.models import Round, Task
from round_manager.specs import spec_of


def lacking_cents(session: Session, round: Round) -> int:
    """What the round's workers lack to the minimum and are not owed yet, without fees."""
    if not spec_of(round).pay.minimum_hourly_cents:
        return 0
    wages = group_wages(session, session.get_one(Task, round.task_id), round=round)
    return sum(sum(cents) for cents in new_top_ups(session, wages).values())
