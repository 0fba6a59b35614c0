"""Work that was submitted directly at the marketplace is distinguished from work that was done on its page."""

from round_manager.crowd.reviews import undecided
from round_manager.models import HitKind
from round_manager.work.quizzes import take_quiz
from round_manager.work.validation_work import Judgement, judge_item
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import MARKET, Floor

POSITIVE = Judgement(label="positive")


def unfinished(floor: Floor, *, our_pages: bool = True) -> list[str]:
    with floor.store.read() as session:
        found = undecided(session, MARKET, floor.task.id, our_pages=our_pages)
    return [one.assignment_id for one in found if one.page_unfinished]


def test_a_creation_page_is_finished_with_its_last_example(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 2})
    done, half = floor.open("W1"), floor.open("W2")
    floor.write_all(done)
    text = floor.fooling(half)
    floor.ask(half, text)
    floor.hand_in(half, text)
    for page in (done, half):
        floor.confirm(page)
    assert unfinished(floor) == [half.claimed_assignment]
    assert unfinished(floor, our_pages=False) == []


def test_a_validation_page_is_finished_with_its_last_judgement(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0})
    for _ in range(2):
        floor.pending(wanted=2)
    done, half = floor.validating("V1"), floor.validating("V2")
    floor.judge_all(done, POSITIVE)
    with floor.write() as session:
        judge_item(session, half, 0, POSITIVE, now=floor.now)
    for page in (done, half):
        floor.confirm(page)
    assert unfinished(floor) == [half.claimed_assignment]


def test_a_quiz_is_finished_when_it_is_answered_correctly_or_not(floor: Floor) -> None:
    assert floor.spec.quiz is not None
    done, untouched = floor.open("W1", kind=HitKind.QUIZ), floor.open("W2", kind=HitKind.QUIZ)
    with floor.write() as session:
        take_quiz(session, done, [0 for _ in floor.spec.quiz.questions], now=floor.now)
    for page in (done, untouched):
        floor.confirm(page)
    assert unfinished(floor) == [untouched.claimed_assignment]


def test_another_workers_page_does_not_count(floor: Floor) -> None:
    page = floor.open("FORGED")
    floor.write_all(page)
    floor.confirm(page, "W1")
    assert unfinished(floor) == [page.claimed_assignment]


def test_a_worker_who_was_at_work_when_the_round_was_closed_has_done_enough(floor: Floor) -> None:
    page = floor.open()
    floor.confirm(page)
    assert unfinished(floor) == [page.claimed_assignment]
    floor.close_round()
    assert unfinished(floor) == []
