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
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import Floor

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


def test_a_page_that_is_loaded_several_times_at_once_has_one_session(floor: Floor) -> None:
    hit = floor.hit()
    pages = at_once(*[lambda: floor.open(hit=hit)] * TOGETHER)
    assert len({page.id for page in pages}) == 1
    assert (len(floor.rows(WorkSession)), len(floor.rows(WorkItem)), len(floor.rows(Lease))) == (1, 1, 1)


def test_a_page_restarted_in_several_tabs_restarts_once(floor: Floor) -> None:
    hit = floor.hit()
    work = floor.open(hit=hit)
    floor.clock.set(work.expires_at)
    pages = at_once(*[lambda: floor.open(hit=hit)] * TOGETHER)
    assert {(page.id, page.expires_at > floor.now) for page in pages} == {(work.id, True)}
    assert (len(floor.rows(WorkItem)), len(floor.live_leases())) == (1, 1)


def test_workers_who_arrive_concurrently_get_different_contexts(lay: LayFloor) -> None:
    floor = lay(contexts=TOGETHER)
    hits = [floor.hit() for _ in range(TOGETHER)]
    pages = at_once(*[lambda hit=hit: floor.open(f"W{hit.id}", hit=hit) for hit in hits])
    assert len({floor.context(page).id for page in pages}) == TOGETHER


def test_the_last_vote_that_is_wanted_is_asked_of_one_worker(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0})
    floor.pending(wanted=1)
    hits = [floor.hit(HitKind.VALIDATE) for _ in range(TOGETHER)]
    pages = at_once(*[lambda hit=hit: floor.open(f"V{hit.id}", hit=hit) for hit in hits])
    assert sum(isinstance(page, NothingToDo) for page in pages) == TOGETHER - 1
    assert len(floor.live_leases()) == 1


def test_a_double_click_on_ask_uses_one_attempt_and_both_calls_get_it(floor: Floor) -> None:
    work = floor.open()
    written = floor.written(work, "once")

    def ask() -> Any:
        return floor.record(work, written, floor.judge(floor.request(work, written)))

    seen = at_once(*[ask] * TOGETHER)
    assert {one.id for one in seen} == {one.id for one in floor.rows(Attempt)}
    assert len(floor.rows(Attempt)) == 1


def test_two_tabs_cannot_both_have_the_last_attempt(lay: LayFloor) -> None:
    floor = lay(work={"tries": 1, "tries_before_skip": 0})
    work = floor.open()
    seen = at_once(*[lambda text=f"text {n}": floor.ask(work, text) for n in range(TOGETHER)])
    assert sum(isinstance(one, WorkRefused) for one in seen) == TOGETHER - 1
    assert len(floor.rows(Attempt)) == 1


def test_a_double_click_on_submit_makes_one_example(floor: Floor) -> None:
    work = floor.open()
    text = floor.written(work, floor.fooling(work))
    floor.ask(work, text)
    made = at_once(*[lambda: floor.hand_in(work, text)] * TOGETHER)
    assert len({one.id for one in made}) == len(floor.rows(Example)) == 1


def test_one_worker_cannot_submit_the_same_text_in_two_hits_at_once(lay: LayFloor) -> None:
    floor = lay(target={"set_by": "annotator"})
    pages = [floor.open("W1") for _ in range(2)]
    for page in pages:
        floor.ask(page, "the same")
    made = at_once(*[lambda page=page: floor.hand_in(page, "the same") for page in pages])
    assert [isinstance(one, WorkRefused) for one in made].count(True) == 1
    assert len(floor.rows(Example)) == 1


def test_concurrent_skips_skip_each_context_once(lay: LayFloor) -> None:
    floor = lay(contexts=3, work={"tries_before_skip": 0})
    work = floor.open()

    def give_up() -> Any:
        with floor.write() as session:
            return skip(session, work, 0, now=floor.now).context.id

    got = at_once(*[give_up] * 2)
    assert len({floor.rows(Lease)[0].context_id, *got}) == 3
    assert len(floor.live_leases()) == 1


def test_finishing_and_confirming_at_once_cast_each_vote_once(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0})
    examples = [floor.pending().id for _ in range(3)]
    work = floor.validating()
    floor.judge_all(work, Judgement(label="positive"))
    outcomes = at_once(lambda: floor.finish(work), lambda: floor.confirm(work), lambda: floor.finish(work))
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert floor.one(work).status is SessionStatus.CONFIRMED
    assert sorted(vote.example_id for vote in floor.votes()) == examples


def test_pages_with_the_same_examples_in_another_order_are_confirmed_at_once(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0}, work={"validations_per_hit": 8})
    examples = [floor.pending(wanted=TOGETHER).id for _ in range(8)]
    pages = [floor.validating(f"V{number}") for number in range(TOGETHER)]
    for page in pages:
        floor.judge_all(page, Judgement(label="positive"))
    outcomes = at_once(*[lambda page=page: floor.confirm(page) for page in pages])
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert sorted(vote.example_id for vote in floor.votes()) == sorted(examples * TOGETHER)


def test_concurrent_quiz_answers_do_not_exceed_the_attempts(floor: Floor) -> None:
    work = floor.open(kind=HitKind.QUIZ)
    assert floor.spec.quiz is not None
    tries = [[(one.answer + how) % len(one.choices) for one in floor.spec.quiz.questions] for how in (1, 2, 1, 2)]
    tries[2][0] = floor.spec.quiz.questions[0].answer

    def take(answers: list[int]) -> Any:
        with floor.write() as session:
            return take_quiz(session, work, answers, now=floor.now).number

    taken = at_once(*[lambda answers=answers: take(answers) for answers in tries])
    assert {one for one in taken if isinstance(one, int)} == {1, 2}
    assert any(isinstance(one, NothingToDo) for one in taken)


def test_concurrent_sweeps_end_everything_that_has_expired(floor: Floor) -> None:
    pages = [floor.open(f"W{number}") for number in range(6)]
    floor.clock.set(pages[-1].expires_at)

    def swept() -> Any:
        with floor.write() as session:
            return sweep(session, now=floor.now)

    outcomes = at_once(*[swept] * TOGETHER)
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert {row.status for row in floor.rows(WorkSession)} == {SessionStatus.EXPIRED}
    assert {(row.ended_at, row.outcome) for row in floor.rows(Lease)} == {(floor.now, LeaseEnd.EXPIRED)}
    assert swept() == 0


@pytest.mark.parametrize("hand_in_first", [True, False])
def test_an_example_and_its_confirmation_are_serialised(floor: Floor, hand_in_first: bool) -> None:
    work = floor.open()
    text = floor.written(work, floor.fooling(work))
    floor.ask(work, text)
    deeds = [lambda: floor.hand_in(work, text), lambda: floor.confirm(work)]
    outcomes = at_once(*(deeds if hand_in_first else deeds[::-1]))
    examples = floor.rows(Example)
    if examples:
        assert examples[0].status == "pending"
    else:
        assert [one for one in outcomes if isinstance(one, WorkRefused)]
