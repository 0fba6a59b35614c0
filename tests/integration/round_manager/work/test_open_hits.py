"""A worker has only so many HITs of a task open at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from round_manager.models import HitKind, WorkSession
from round_manager.work.errors import FINISH_HIT, TooManyHits
from tests.campaign import MINUTE, Campaign, NewCampaign

# One kind is enough: the task's lock, on which the limit depends, is tested on both.
pytestmark = pytest.mark.any_database


def refused(campaign: Campaign, worker: str = "W1") -> TooManyHits:
    with pytest.raises(TooManyHits) as caught:
        campaign.open_page(worker)
    return caught.value


def test_one_more_hit_than_allowed_is_refused_until_one_is_finished(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"hits_at_once": 2})
    first, _ = campaign.open_page(), campaign.open_page()
    error = refused(campaign)
    assert (error.code, error.retry, error.hint) == ("too_many_hits", True, FINISH_HIT)
    assert len(campaign.rows(WorkSession)) == 2
    campaign.write_examples(first)
    campaign.finish_page(first)
    assert campaign.open_page().worker_id == first.worker_id
    refused(campaign)


def test_three_are_allowed_by_default(campaign: Campaign) -> None:
    for _ in range(3):
        campaign.open_page()
    refused(campaign)


def test_a_page_that_is_open_can_be_loaded_again(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"hits_at_once": 1})
    hit = campaign.add_hit()
    page = campaign.open_page(hit=hit)
    assert campaign.open_page(hit=hit).id == page.id


def test_hits_whose_time_is_over_do_not_count(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"hits_at_once": 1})
    old = campaign.add_hit()
    page = campaign.open_page(hit=old)
    campaign.clock.advance(20 * MINUTE)
    campaign.open_page()
    with pytest.raises(TooManyHits):
        campaign.open_page(hit=old)
    assert campaign.reload(page).expires_at <= campaign.now


def test_only_the_workers_own_hits_of_the_same_task_count(new_campaign: NewCampaign) -> None:
    campaign, other = new_campaign(work={"hits_at_once": 1}), new_campaign("nli", work={"hits_at_once": 1})
    other.numbers = campaign.numbers
    campaign.open_page("W1")
    campaign.open_page("W2")
    other.open_page("W1")
    campaign.add_example()
    with pytest.raises(TooManyHits):
        campaign.open_page("W1", kind=HitKind.VALIDATE)


def test_pages_that_a_stranger_opens_on_one_link_take_one_place(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"hits_at_once": 2})
    link = campaign.add_hit()
    for number in range(3):
        campaign.open_page(hit=link, assignment=f"FORGED{number}")
    campaign.open_page()
    refused(campaign)


def test_a_refusal_names_no_assignment(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"hits_at_once": 1})
    page = campaign.open_page(assignment="ASSIGNMENT1")
    text = str(refused(campaign))
    assert "ASSIGNMENT1" not in text
    assert f"{page.started_at:%H:%M}" in text


def test_pages_that_are_opened_at_the_same_time_do_not_exceed_the_limit(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"hits_at_once": 2})
    hits = [campaign.add_hit() for _ in range(4)]

    def opens(number: int) -> bool:
        try:
            return bool(campaign.open_page(hit=hits[number]))
        except TooManyHits:
            return False

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(opens, range(4))) == 2
