"""The order in which Label Studio gets contexts to write on is that of the task's strategy."""

import pytest

from round_manager.labelstudio.tasks import plan_creation, unsent_tasks
from round_manager.models import Context, ContextTally, LabelStudioLink, ProjectKind, Task
from tests.campaign import Campaign, NewCampaign

# By their places in the owner's file: examples on each context, and how many of them fooled.
USED = [3, 0, 2, 2, 1, 0, 4, 1]
FOOLED = [0, 0, 1, 0, 1, 0, 2, 0]
ORDERS = {
    "in_order": [1, 5, 4, 7, 2, 3, 0, 6],
    "least_used": [1, 5, 4, 7, 2, 3, 0, 6],
    "least_fooled": [1, 5, 7, 3, 0, 4, 2, 6],
}


def sent(campaign: Campaign) -> list[int]:
    """The places of the contexts in the order in which they are sent."""
    contexts = campaign.rows(Context, Context.retired_at.is_(None))
    with campaign.store.write() as session:
        for one, used, fooled in zip(contexts, USED, FOOLED, strict=True):
            tally = session.get_one(ContextTally, (campaign.round_id, one.id))
            tally.used, tally.fooled = used, fooled
        link = LabelStudioLink(task_id=campaign.task.id, kind=ProjectKind.CREATE, url="http://ls", project=1)
        session.add(link)
        session.flush()
        plan_creation(session, link, campaign.spec, now=campaign.now)
        keys = [one.context.id for one in unsent_tasks(session, link) if one.context]
    return [[one.key for one in contexts].index(key) for key in keys]


@pytest.mark.parametrize("strategy", ORDERS)
def test_contexts_are_sent_in_the_strategys_order_and_ties_in_the_owners_order(
    new_campaign: NewCampaign, strategy: str
) -> None:
    assert sent(new_campaign(rounds={"context_strategy": strategy})) == ORDERS[strategy]


def test_a_uniform_order_is_drawn(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(rounds={"context_strategy": "uniform"})
    with campaign.store.write() as session:
        # Drawn with this, so that it is the same draw each time.
        session.get_one(Task, campaign.task.id).worker_salt = "0" * 64
    order = sent(campaign)
    assert sorted(order) == list(range(8))
    assert order != list(range(8))
