"""Paged lists of the ledger and of workers, and the mark of simulated ones."""

import pytest

from round_manager.errors import TaskNotFound
from round_manager.models import EntryState
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.payments import list_ledger
from round_manager.services.tasks import show_overview
from round_manager.services.validation import list_examples
from round_manager.services.workers import list_workers, mark_simulated
from tests.campaign import OWNER, Campaign


@pytest.fixture
def context(campaign: Campaign) -> ServiceContext:
    return ServiceContext(campaign.store, campaign.clock)


def test_the_ledger_is_read_in_pages_from_the_newest_entry(campaign: Campaign, context: ServiceContext) -> None:
    campaign.post_hits(3)
    whole = list_ledger(context)
    assert whole.next_before is None
    ids = [row.entry.id for row in whole.rows]
    assert ids == sorted(ids, reverse=True)
    assert {row.entry.state for row in whole.rows} == {EntryState.RESERVED}
    first = list_ledger(context, task=campaign.task.name, limit=4)
    second = list_ledger(context, task=campaign.task.name, limit=4, before=first.next_before)
    assert [row.entry.id for row in (*first.rows, *second.rows)] == ids
    assert (len(first.rows), second.next_before) == (4, None)


def test_the_ledger_of_an_unknown_task_is_an_error(context: ServiceContext) -> None:
    with pytest.raises(TaskNotFound):
        list_ledger(context, task="other")


def test_workers_are_read_in_pages(campaign: Campaign, context: ServiceContext) -> None:
    for worker in ("W1", "W2", "W3"):
        campaign.marketplace.access.grant(campaign.task, worker, actor=OWNER, reason="")
    whole = list_workers(context, campaign.crowd.name)
    assert (len(whole.workers), whole.total) == (3, 3)
    page = list_workers(context, campaign.crowd.name, task=campaign.task.name, offset=1, limit=1)
    assert (page.workers, page.total) == (whole.workers[1:2], 3)


def test_simulated_workers_are_marked_wherever_they_appear(campaign: Campaign, context: ServiceContext) -> None:
    mark_simulated(context, Actor(OWNER), campaign.crowd.name, {"W1": "Robot 1"})
    mark_simulated(context, Actor(OWNER), campaign.crowd.name, {"W1": "Robot 1"})
    for worker in ("W1", "W2"):
        campaign.marketplace.access.grant(campaign.task, worker, actor=OWNER, reason="")
    found = {one.worker_id: one.simulated for one in list_workers(context, campaign.crowd.name).workers}
    assert found == {"W1": True, "W2": False}
    examples = [campaign.add_example(author=name) for name in ("W1", "W2")]
    listed = list_examples(context, campaign.task.name).examples
    assert [one.simulated for one in listed] == [False, True]
    assert [one.author.startswith("simulated-") for one in listed] == [False, True]
    assert len(listed) == len(examples)
    (overview,) = show_overview(context, campaign.task.name, has_marketplace=True).tasks
    assert (overview.collected, overview.simulated) == (2, 1)
