"""Recruits: places in the quiz for as many people as an owner wants, beyond those whom the round itself needs."""

from datetime import datetime

from sqlalchemy.orm import Session

from crowd.port import Crowd
from round_manager.crowd.planning import plan_hits
from round_manager.loop.supply import Supply, places_in_one_hit, wishes_of
from round_manager.loop.supply_facts import people_lately, places_out
from round_manager.models import Hit, HitKind, Round, Task
from round_manager.specs import spec_of
from round_manager.tasks.rounds import live_round


def plan_recruits(session: Session, task: Task, crowd: Crowd, people: int, *, now: datetime) -> list[Hit]:
    """HITs with places in the quiz until so many people have passed it or can take it; nothing is sent.

    The task's qualification must be on the marketplace before.
    """
    live = live_round(session, task.id)
    if live is None or spec_of(live).quiz is None:
        return []
    held = session.get_one(Round, live.id, with_for_update={"key_share": True}, populate_existing=True)
    known = people_lately(session, held, crowd.name, now=now) + places_out(session, held, crowd.name).get(
        HitKind.QUIZ, 0
    )
    planned: list[Hit] = []
    lacking = people - known
    while lacking > 0:
        places = places_in_one_hit(lacking, crowd.profile.fees)
        (wish,) = wishes_of(held, Supply(quiz_places=places), now=now)
        planned += plan_hits(session, held, wish, crowd, now=now)
        lacking -= places
    return planned
