"""Two pages of one worker with one context: it is written on once, and the other page is refused in time."""

import pytest

from round_manager.models import Example, ExampleStatus, WorkSession
from round_manager.work.attempts import CreationItem
from round_manager.work.creation import skip
from round_manager.work.errors import NothingToDo, WrittenElsewhere
from round_manager.work.sessions import sweep
from tests.campaign import MINUTE, Campaign, NewCampaign
from tests.campaign.pages import items_to_write


def shown(campaign: Campaign, page: WorkSession) -> CreationItem:
    with campaign.store.read() as session:
        return items_to_write(session, page)[0]


@pytest.mark.parametrize("first", [0, 1], ids=["the older page is first", "the newer page is first"])
def test_two_pages_cannot_both_submit_on_the_same_context(new_campaign: NewCampaign, first: int) -> None:
    campaign = new_campaign(contexts=1)
    pages = [campaign.open_page("W1"), campaign.open_page("W1")]
    assert campaign.context_of(pages[0]).id == campaign.context_of(pages[1]).id
    behind = pages[1 - first]
    text = campaign.page_text(behind)
    campaign.ask_target(behind, text)
    assert not shown(campaign, behind).can_skip
    campaign.write_examples(pages[first])
    with pytest.raises(WrittenElsewhere):
        campaign.submit_example(behind, text)
    # No attempts are spent on a text that cannot be submitted.
    with pytest.raises(WrittenElsewhere):
        campaign.ask_target(behind, f"{text} again")
    campaign.finish_page(pages[first])
    campaign.confirm(pages[first])
    with pytest.raises(WrittenElsewhere):
        campaign.submit_example(behind, text)
    assert len(campaign.rows(Example)) == 1


def test_the_slower_page_may_skip_at_once_and_continue_with_another_context(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=2, rounds={"context_strategy": "in_order"}, work={"tries_before_skip": 2})
    older, newer = campaign.open_page("W1"), campaign.open_page("W1")
    again = campaign.open_page("W1")
    assert campaign.context_of(again).id == campaign.context_of(older).id != campaign.context_of(newer).id
    campaign.write_examples(again)
    assert shown(campaign, older).can_skip
    with campaign.store.write() as session:
        assert skip(session, older, 0, now=campaign.now).context.id == campaign.context_of(newer).id
    campaign.write_examples(older)
    assert shown(campaign, newer).can_skip
    with campaign.store.write() as session, pytest.raises(NothingToDo):
        skip(session, newer, 0, now=campaign.now)


def test_if_a_task_allows_repeated_contexts_both_pages_submit(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=1, work={"repeat_context": True})
    for page in [campaign.open_page("W1"), campaign.open_page("W1")]:
        campaign.write_examples(page)
    assert len(campaign.rows(Example)) == 2


def test_submissions_of_an_expired_page_do_not_block_the_other(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=1)
    campaign.write_examples(campaign.open_page("W1"))
    campaign.clock.advance(21 * MINUTE)
    with campaign.store.write() as session:
        sweep(session, now=campaign.now)
    campaign.write_examples(campaign.open_page("W1"))
    assert len(campaign.rows(Example)) == 2


def test_the_second_of_two_confirmed_examples_on_a_context_is_withdrawn(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(contexts=1)
    late = campaign.open_page("W1")
    campaign.write_examples(late)
    campaign.clock.advance(21 * MINUTE)
    page = campaign.open_page("W1")
    campaign.write_examples(page)
    for one in (page, late):
        campaign.confirm(one)
    first, second = campaign.rows(Example)
    assert (first.status, second.status) == (ExampleStatus.WITHDRAWN, ExampleStatus.PENDING)
    assert [entry.subject_id for entry in campaign.audit("withdrew")] == [first.id]
