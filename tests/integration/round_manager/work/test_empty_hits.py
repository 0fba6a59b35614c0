"""A validation HIT that holds nothing when its page is opened is paid its reward, within limits."""

from datetime import timedelta

import pytest

from round_manager.crowd.fair_pay import earned_work
from round_manager.crowd.reviews import undecided
from round_manager.models import GoldShowing, HitKind, SessionStatus, WorkSession
from round_manager.services import work as services
from round_manager.work import empty_hits
from round_manager.work.errors import NothingToDo
from round_manager.work.validation_work import Judgement
from tests.campaign import DAY, Campaign, NewCampaign
from tests.campaign.base import MARKET, built_in_pack
from tests.fakes.gold import update_gold

POSITIVE = Judgement(label="positive")
NO_GOLD = {"gold_rate": 0.0}


def finish_empty(campaign: Campaign, worker: str = "V1") -> WorkSession:
    """Submit a HIT that holds nothing, and let the marketplace confirm it."""
    page = campaign.open_validation_page(worker)
    assert page.empty_at is not None
    campaign.finish_page(page)
    campaign.confirm(page)
    confirmed: WorkSession = campaign.reload(page)
    return confirmed


def refuses(campaign: Campaign, worker: str = "V1") -> bool:
    """Whether a new HIT without work is refused instead of paid."""
    with pytest.raises(NothingToDo):
        campaign.open_validation_page(worker)
    return True


@pytest.mark.any_database
def test_an_empty_hit_can_be_submitted_and_counts_as_finished(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    page = finish_empty(campaign)
    assert page.status is SessionStatus.CONFIRMED
    with campaign.store.read() as session:
        (work,) = undecided(session, MARKET, campaign.task.id, our_pages=True)
    assert not work.page_unfinished


@pytest.mark.any_database
def test_a_worker_is_paid_for_a_limited_number_of_empty_hits_in_a_day(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD, work={"empty_hits_per_day": 2})
    finish_empty(campaign)
    campaign.open_validation_page()
    assert refuses(campaign)
    # Other workers, and other days, count for themselves.
    finish_empty(campaign, "V2")
    campaign.clock.advance(DAY)
    finish_empty(campaign)


def test_none_is_paid_where_the_task_says_so(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD, work={"empty_hits_per_day": 0})
    assert refuses(campaign)


def test_a_round_pays_for_a_limited_share_of_its_hits(
    new_campaign: NewCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(empty_hits, "LEAST_PER_ROUND", 2)
    campaign = new_campaign(validation=NO_GOLD)
    for worker in ("V1", "V2"):
        finish_empty(campaign, worker)
    assert refuses(campaign, "V3")
    for _ in range(13):
        campaign.add_hit(HitKind.VALIDATE)
    finish_empty(campaign, "V3")


def test_a_worker_who_holds_the_work_on_another_page_is_not_paid(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example("A1", wanted=1)
    page = campaign.open_validation_page()
    assert refuses(campaign)
    campaign.judge_all(page, POSITIVE)
    campaign.finish_page(page)
    assert campaign.open_validation_page().empty_at is not None


def test_a_page_that_had_work_is_not_paid_when_it_starts_again(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example("A1", wanted=1)
    hit = campaign.add_hit(HitKind.VALIDATE)
    campaign.open_page("V1", hit=hit)
    campaign.clock.advance(timedelta(hours=1))
    campaign.open_validation_page("V2")
    with pytest.raises(NothingToDo):
        campaign.open_page("V1", hit=hit)


def test_an_empty_page_that_starts_again_takes_the_work_that_there_is_now(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    hit = campaign.add_hit(HitKind.VALIDATE)
    assert campaign.open_page("V1", hit=hit).empty_at is not None
    campaign.clock.advance(timedelta(hours=1))
    campaign.add_example("A1")
    assert campaign.open_page("V1", hit=hit).empty_at is None


def test_time_on_an_empty_page_is_worth_nothing(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    page = campaign.open_validation_page()
    campaign.clock.advance(timedelta(minutes=4))
    services.record_active_time(campaign.services, page.public_id, 240_000)
    campaign.finish_page(page)
    assignment = campaign.confirm(page)
    assert (campaign.reload(page).active_ms, campaign.reload(assignment).active_ms) == (0, 0)
    with campaign.store.read() as session:
        assert list(earned_work(session, campaign.task)) == []


def test_no_gold_is_used_up(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 1.0})
    with campaign.store.write() as session:
        update_gold(session, campaign.task, built_in_pack("sentiment").seed[:9], now=campaign.now)
    campaign.open_validation_page()
    assert campaign.rows(GoldShowing) == []
