"""Work that was submitted directly at the marketplace is distinguished from work that was done on its page."""

import pytest

from round_manager.crowd.reviews import undecided
from round_manager.models import HitKind
from round_manager.work.quizzes import take_quiz
from round_manager.work.validation_work import Judgement, judge_item
from tests.campaign import MARKET, Campaign, NewCampaign

POSITIVE = Judgement(label="positive")


def unfinished(campaign: Campaign, *, our_pages: bool = True) -> list[str]:
    with campaign.store.read() as session:
        found = undecided(session, MARKET, campaign.task.id, our_pages=our_pages)
    return [one.assignment_id for one in found if one.page_unfinished]


@pytest.mark.any_database
def test_a_creation_page_is_finished_with_its_last_example(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 2})
    done, half = campaign.open_page("W1"), campaign.open_page("W2")
    campaign.write_examples(done)
    text = campaign.page_text(half)
    campaign.ask_target(half, text)
    campaign.submit_example(half, text)
    for page in (done, half):
        campaign.confirm(page)
    assert unfinished(campaign) == [half.claimed_assignment]
    assert unfinished(campaign, our_pages=False) == []


@pytest.mark.any_database
def test_a_validation_page_is_finished_with_its_last_judgement(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    for _ in range(2):
        campaign.add_example(wanted=2)
    done, half = campaign.open_validation_page("V1"), campaign.open_validation_page("V2")
    campaign.judge_all(done, POSITIVE)
    with campaign.store.write() as session:
        judge_item(session, half, 0, POSITIVE, now=campaign.now)
    for page in (done, half):
        campaign.confirm(page)
    assert unfinished(campaign) == [half.claimed_assignment]


def test_a_quiz_is_finished_when_it_is_answered_correctly_or_not(campaign: Campaign) -> None:
    assert campaign.spec.quiz is not None
    done, untouched = campaign.open_page("W1", kind=HitKind.QUIZ), campaign.open_page("W2", kind=HitKind.QUIZ)
    with campaign.store.write() as session:
        take_quiz(session, done, [0 for _ in campaign.spec.quiz.questions], now=campaign.now)
    for page in (done, untouched):
        campaign.confirm(page)
    assert unfinished(campaign) == [untouched.claimed_assignment]


@pytest.mark.any_database
def test_another_workers_page_does_not_count(campaign: Campaign) -> None:
    page = campaign.open_page("FORGED")
    campaign.write_examples(page)
    campaign.confirm(page, "W1")
    assert unfinished(campaign) == [page.claimed_assignment]


@pytest.mark.any_database
def test_a_worker_who_was_at_work_when_the_round_was_closed_has_done_enough(campaign: Campaign) -> None:
    page = campaign.open_page()
    campaign.confirm(page)
    assert unfinished(campaign) == [page.claimed_assignment]
    campaign.mark_closed()
    assert unfinished(campaign) == []
