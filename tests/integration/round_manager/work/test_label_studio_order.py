"""The order in which Label Studio gets contexts to write on is that of the task's strategy."""

import pytest

from round_manager.labelstudio.tasks import plan_creation, unsent_tasks
from round_manager.models import Context, ContextTally, LabelStudioLink, ProjectKind, Task
from tests.integration.round_manager.conftest import BeginSeason
from tests.integration.round_manager.season import Season

# By their places in the owner's file: examples on each context, and how many of them fooled.
USED = [3, 0, 2, 2, 1, 0, 4, 1]
FOOLED = [0, 0, 1, 0, 1, 0, 2, 0]
ORDERS = {
    "in_order": [1, 5, 4, 7, 2, 3, 0, 6],
    "least_used": [1, 5, 4, 7, 2, 3, 0, 6],
    "least_fooled": [1, 5, 7, 3, 0, 4, 2, 6],
}


def sent(season: Season) -> list[int]:
    """The places of the contexts in the order in which they are sent."""
    contexts = season.floor.rows(Context, Context.retired_at.is_(None))
    with season.store.write() as session:
        for one, used, fooled in zip(contexts, USED, FOOLED, strict=True):
            tally = session.get_one(ContextTally, (season.round.id, one.id))
            tally.used, tally.fooled = used, fooled
        link = LabelStudioLink(task_id=season.floor.task.id, kind=ProjectKind.CREATE, url="http://ls", project=1)
        session.add(link)
        session.flush()
        plan_creation(session, link, season.floor.spec, now=season.floor.now)
        keys = [one.context.id for one in unsent_tasks(session, link) if one.context]
    return [[one.key for one in contexts].index(key) for key in keys]


@pytest.mark.parametrize("strategy", ORDERS)
def test_contexts_are_sent_in_the_strategys_order_and_ties_in_the_owners_order(
    begin: BeginSeason, strategy: str
) -> None:
    assert sent(begin(rounds={"context_strategy": strategy})) == ORDERS[strategy]


def test_a_uniform_order_is_drawn(begin: BeginSeason) -> None:
    season = begin(rounds={"context_strategy": "uniform"})
    with season.store.write() as session:
        # Drawn with this, so that it is the same draw each time.
        session.get_one(Task, season.floor.task.id).worker_salt = "0" * 64
    order = sent(season)
    assert sorted(order) == list(range(8))
    assert order != list(range(8))
