"""Each example and each vote has its own share of its page's active time, and a page cannot make time up."""

from datetime import timedelta

import pytest

from round_manager.models import Example, WorkItem, WorkSession
from round_manager.work.active_time import record_active_time
from round_manager.work.creation import skip
from round_manager.work.validation_work import Judgement, judge_item
from tests.campaign import MINUTE, Campaign, NewCampaign

NO_GOLD = {"gold_rate": 0.0}
POSITIVE = Judgement(label="positive")


def fooled(campaign: Campaign, work: WorkSession, item: int = 0, active_ms: int | None = None) -> int | None:
    """The time of an example that was written for the item."""
    text = campaign.page_text(work, item)
    campaign.ask_target(work, text, item)
    return campaign.submit_example(work, text, item, active_ms=active_ms).active_ms


def told(campaign: Campaign, work: WorkSession, active_ms: int) -> None:
    with campaign.store.write() as session:
        record_active_time(session, work, active_ms, now=campaign.now)


def judged(campaign: Campaign, work: WorkSession, item: int, active_ms: int | None = None) -> None:
    with campaign.store.write() as session:
        judge_item(session, work, item, POSITIVE, now=campaign.now, active_ms=active_ms)


def test_an_example_gets_the_time_since_the_previous_one(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3})
    work = campaign.open_page()
    campaign.clock.advance(5 * MINUTE)
    assert [fooled(campaign, work, item, ms) for item, ms in ((1, 100_000), (0, 160_001), (2, 160_002))] == [
        100_000, 60_001, 1,
    ]  # fmt: skip
    assert campaign.reload(work).active_ms == 160_002


def test_active_time_never_exceeds_elapsed_time_and_never_decreases(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 5})
    work = campaign.open_page()
    campaign.clock.advance(MINUTE)
    assert fooled(campaign, work, 0, 10**30) == 60_000
    campaign.clock.advance(MINUTE)
    assert [fooled(campaign, work, item, ms) for item, ms in ((1, 30_000), (2, -(10**30)), (3, 0))] == [0, 0, 0]
    assert fooled(campaign, work, 4, 10**30) == 60_000
    assert campaign.reload(work).active_ms == 120_000


def test_time_on_a_skipped_text_belongs_to_no_example(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"tries_before_skip": 0})
    work = campaign.open_page()
    campaign.clock.advance(5 * MINUTE)
    with campaign.store.write() as session:
        skip(session, work, 0, now=campaign.now, active_ms=70_000)
        skip(session, work, 0, now=campaign.now, active_ms=80_000)
    assert fooled(campaign, work, 0, 100_000) == 20_000
    (row,) = campaign.rows(WorkItem)
    assert row.active_ms == 100_000


@pytest.mark.any_database
def test_a_vote_has_the_time_of_its_judgement_and_of_every_change_of_mind(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    for _ in range(2):
        campaign.add_example()
    work = campaign.open_validation_page()
    campaign.clock.advance(5 * MINUTE)
    for item, ms in ((0, 10_000), (1, 15_000), (0, 40_000), (0, 40_000)):
        judged(campaign, work, item, ms)
    campaign.finish_page(work)
    assignment = campaign.confirm(work)
    assert [vote.active_ms for vote in campaign.votes()] == [35_000, 5_000]
    assert campaign.reload(assignment).active_ms == 40_000


@pytest.mark.any_database
def test_a_page_that_sends_no_count_keeps_its_last_report(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3})
    work = campaign.open_page()
    campaign.clock.advance(5 * MINUTE)
    told(campaign, work, 15_000)
    assert fooled(campaign, work, 0) == 15_000
    assert fooled(campaign, work, 1) == 0
    told(campaign, work, 45_000)
    assert fooled(campaign, work, 2) == 30_000


@pytest.mark.any_database
def test_a_page_that_never_reported_its_time_has_none_rather_than_zero(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    assert fooled(campaign, campaign.open_page()) is None
    campaign.add_example()
    work = campaign.open_validation_page()
    campaign.judge_all(work, POSITIVE)
    campaign.finish_page(work)
    campaign.confirm(work)
    assert [vote.active_ms for vote in campaign.votes()] == [None]


@pytest.mark.any_database
def test_submitting_again_takes_no_time_from_the_next_example(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 2})
    work = campaign.open_page()
    campaign.clock.advance(5 * MINUTE)
    assert fooled(campaign, work, 0, 20_000) == 20_000
    assert campaign.submit_example(work, campaign.page_text(work), active_ms=90_000).active_ms == 20_000
    assert fooled(campaign, work, 1, 100_000) == 80_000


def test_a_restarted_page_counts_from_zero_and_earlier_examples_keep_their_time(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 2})
    hit = campaign.add_hit()
    work = campaign.open_page(hit=hit)
    campaign.clock.advance(5 * MINUTE)
    assert fooled(campaign, work, 0, 200_000) == 200_000
    campaign.clock.advance(timedelta(hours=1))
    again = campaign.open_page(hit=hit)
    campaign.clock.advance(MINUTE)
    assert fooled(campaign, again, 1, 30_000) == 30_000
    assert [example.active_ms for example in campaign.rows(Example)] == [200_000, 30_000]


def test_the_times_of_a_pages_items_add_up_to_its_time(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD, work={"validations_per_hit": 4})
    for number in range(4):
        campaign.add_example(f"A{number}")
    work = campaign.open_validation_page()
    campaign.clock.advance(5 * MINUTE)
    for place, row in enumerate(campaign.rows(WorkItem), 1):
        judged(campaign, work, row.item, place * 11_111)
    assert [row.active_ms for row in campaign.rows(WorkItem)] == [11_111] * 4
    assert campaign.reload(work).active_ms == 44_444
