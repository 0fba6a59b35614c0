"""Concurrent tabs, workers and marketplace calls: nothing is duplicated, and nothing is lost."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from round_manager.errors import RoundManagerError
from round_manager.models import Attempt, Example, HitKind, Lease, LeaseEnd, SessionStatus, WorkItem, WorkSession
from round_manager.work.creation import skip
from round_manager.work.errors import NothingToDo, WorkRefused
from round_manager.work.quizzes import take_quiz
from round_manager.work.sessions import sweep
from round_manager.work.validation_work import Judgement
from tests.campaign import Campaign, NewCampaign

TOGETHER = 4


def at_once(*deeds: Callable[[], Any]) -> list[Any]:
    """Run each action in its own thread, and return the results or our errors."""
    start = threading.Barrier(len(deeds))

    def one(deed: Callable[[], Any]) -> Any:
        start.wait(10)
        try:
            return deed()
        except RoundManagerError as error:
            return error

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(one, deeds))


def test_a_page_that_is_loaded_several_times_at_once_has_one_session(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    pages = at_once(*[lambda: campaign.open_page(hit=hit)] * TOGETHER)
    assert len({page.id for page in pages}) == 1
    assert (len(campaign.rows(WorkSession)), len(campaign.rows(WorkItem)), len(campaign.rows(Lease))) == (1, 1, 1)


def test_a_page_restarted_in_several_tabs_restarts_once(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    work = campaign.open_page(hit=hit)
    campaign.clock.set(work.expires_at)
    pages = at_once(*[lambda: campaign.open_page(hit=hit)] * TOGETHER)
    assert {(page.id, page.expires_at > campaign.now) for page in pages} == {(work.id, True)}
    assert (len(campaign.rows(WorkItem)), len(campaign.live_leases())) == (1, 1)


def test_workers_who_arrive_concurrently_get_different_contexts(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=TOGETHER)
    hits = [campaign.add_hit() for _ in range(TOGETHER)]
    pages = at_once(*[lambda hit=hit: campaign.open_page(f"W{hit.id}", hit=hit) for hit in hits])
    assert len({campaign.context_of(page).id for page in pages}) == TOGETHER


def test_the_last_vote_that_is_wanted_is_asked_of_one_worker(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    campaign.add_example(wanted=1)
    hits = [campaign.add_hit(HitKind.VALIDATE) for _ in range(TOGETHER)]
    pages = at_once(*[lambda hit=hit: campaign.open_page(f"V{hit.id}", hit=hit) for hit in hits])
    assert sum(page.empty_at is not None for page in pages) == TOGETHER - 1
    assert len(campaign.live_leases()) == 1


def test_a_double_click_on_ask_uses_one_attempt_and_both_calls_get_it(campaign: Campaign) -> None:
    work = campaign.open_page()
    written = campaign.page_input(work, "once")

    def ask() -> Any:
        return campaign.record_attempt(work, written, campaign.judge(campaign.judge_request(work, written)))

    seen = at_once(*[ask] * TOGETHER)
    assert {one.id for one in seen} == {one.id for one in campaign.rows(Attempt)}
    assert len(campaign.rows(Attempt)) == 1


def test_two_tabs_cannot_both_have_the_last_attempt(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"tries": 1, "tries_before_skip": 0})
    work = campaign.open_page()
    seen = at_once(*[lambda text=f"text {n}": campaign.ask_target(work, text) for n in range(TOGETHER)])
    assert sum(isinstance(one, WorkRefused) for one in seen) == TOGETHER - 1
    assert len(campaign.rows(Attempt)) == 1


def test_a_double_click_on_submit_makes_one_example(campaign: Campaign) -> None:
    work = campaign.open_page()
    text = campaign.page_input(work, campaign.page_text(work))
    campaign.ask_target(work, text)
    made = at_once(*[lambda: campaign.submit_example(work, text)] * TOGETHER)
    assert len({one.id for one in made}) == len(campaign.rows(Example)) == 1


def test_one_worker_cannot_submit_the_same_text_in_two_hits_at_once(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(target={"set_by": "annotator"})
    pages = [campaign.open_page("W1") for _ in range(2)]
    for page in pages:
        campaign.ask_target(page, "the same")
    made = at_once(*[lambda page=page: campaign.submit_example(page, "the same") for page in pages])
    assert [isinstance(one, WorkRefused) for one in made].count(True) == 1
    assert len(campaign.rows(Example)) == 1


def test_concurrent_skips_skip_each_context_once(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=3, work={"tries_before_skip": 0})
    work = campaign.open_page()

    def give_up() -> Any:
        with campaign.store.write() as session:
            return skip(session, work, 0, now=campaign.now).context.id

    got = at_once(*[give_up] * 2)
    assert len({campaign.rows(Lease)[0].context_id, *got}) == 3
    assert len(campaign.live_leases()) == 1


def test_finishing_and_confirming_at_once_cast_each_vote_once(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    examples = [campaign.add_example().id for _ in range(3)]
    work = campaign.open_validation_page()
    campaign.judge_all(work, Judgement(label="positive"))
    outcomes = at_once(
        lambda: campaign.finish_page(work), lambda: campaign.confirm(work), lambda: campaign.finish_page(work)
    )
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert campaign.reload(work).status is SessionStatus.CONFIRMED
    assert sorted(vote.example_id for vote in campaign.votes()) == examples


def test_pages_with_the_same_examples_in_another_order_are_confirmed_at_once(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0}, work={"validations_per_hit": 8})
    examples = [campaign.add_example(wanted=TOGETHER).id for _ in range(8)]
    pages = [campaign.open_validation_page(f"V{number}") for number in range(TOGETHER)]
    for page in pages:
        campaign.judge_all(page, Judgement(label="positive"))
    outcomes = at_once(*[lambda page=page: campaign.confirm(page) for page in pages])
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert sorted(vote.example_id for vote in campaign.votes()) == sorted(examples * TOGETHER)


def test_concurrent_quiz_answers_do_not_exceed_the_attempts(campaign: Campaign) -> None:
    work = campaign.open_page(kind=HitKind.QUIZ)
    assert campaign.spec.quiz is not None
    tries = [[(one.answer + how) % len(one.choices) for one in campaign.spec.quiz.questions] for how in (1, 2, 1, 2)]
    tries[2][0] = campaign.spec.quiz.questions[0].answer

    def take(answers: list[int]) -> Any:
        with campaign.store.write() as session:
            return take_quiz(session, work, answers, now=campaign.now).number

    taken = at_once(*[lambda answers=answers: take(answers) for answers in tries])
    assert {one for one in taken if isinstance(one, int)} == {1, 2}
    assert any(isinstance(one, NothingToDo) for one in taken)


def test_concurrent_sweeps_end_everything_that_has_expired(campaign: Campaign) -> None:
    pages = [campaign.open_page(f"W{number}") for number in range(6)]
    campaign.clock.set(pages[-1].expires_at)

    def swept() -> Any:
        with campaign.store.write() as session:
            return sweep(session, now=campaign.now)

    outcomes = at_once(*[swept] * TOGETHER)
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert {row.status for row in campaign.rows(WorkSession)} == {SessionStatus.EXPIRED}
    assert {(row.ended_at, row.outcome) for row in campaign.rows(Lease)} == {(campaign.now, LeaseEnd.EXPIRED)}
    assert swept() == 0


@pytest.mark.parametrize("hand_in_first", [True, False])
def test_an_example_and_its_confirmation_are_serialised(campaign: Campaign, hand_in_first: bool) -> None:
    work = campaign.open_page()
    text = campaign.page_input(work, campaign.page_text(work))
    campaign.ask_target(work, text)
    deeds = [lambda: campaign.submit_example(work, text), lambda: campaign.confirm(work)]
    outcomes = at_once(*(deeds if hand_in_first else deeds[::-1]))
    examples = campaign.rows(Example)
    if examples:
        assert examples[0].status == "pending"
    else:
        assert [one for one in outcomes if isinstance(one, WorkRefused)]
