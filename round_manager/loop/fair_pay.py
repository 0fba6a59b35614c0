"""Fair pay at a round's end: once all its work is decided, groups below the task's minimum are brought up to it.

Not before: a median goes by all who worked, and nobody gets a second top-up for the same work.
"""

from datetime import datetime

from sqlalchemy.orm import Session

from crowd.port import Crowd
from round_manager.crowd.wages import group_wages, owe_top_ups
from round_manager.loop.waiting import work_to_come
from round_manager.models import Round, RoundStatus, Task


def owe_fair_pay(session: Session, round: Round, crowd: Crowd, *, now: datetime) -> int:
    """Owes what the round's workers lack, where the round waits for nothing else; how many cents, without fees.

    A BudgetError where the budget does not cover it; the round stays as it is.
    """
    if not is_at_its_end(session, round, now=now):
        return 0
    return owe_top_ups(session, crowd, group_wages(session, session.get_one(Task, round.task_id), round=round), now=now)


def is_at_its_end(session: Session, round: Round, *, now: datetime) -> bool:
    """Whether the round waits for nothing any more, but perhaps for this pay."""
    if round.paused_at is not None or round.status is not RoundStatus.VALIDATING:
        return False
    return not work_to_come(session, round, now=now)
