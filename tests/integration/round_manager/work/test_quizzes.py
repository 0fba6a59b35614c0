"""Quizzes are scored by the server, limited by the task, and count for workers whom the marketplace confirms."""

from datetime import timedelta

import pytest

from round_manager.models import HitKind, Qualification, QualificationGrant, QuizResult, WorkSession
from round_manager.work.errors import HitIncomplete, InvalidInput, NothingToDo, PageUnknown, TimeIsOver
from round_manager.work.quizzes import attempts_left, explanations, take_quiz, ungranted_passes
from round_manager.work.sessions import session_context
from tests.integration.round_manager.work.floor import MARKET, MINUTE, Floor


def right(floor: Floor) -> list[int]:
    assert floor.spec.quiz is not None
    return [one.answer for one in floor.spec.quiz.questions]


def wrong(floor: Floor, how: int = 1) -> list[int]:
    assert floor.spec.quiz is not None
    return [(one.answer + how) % len(one.choices) for one in floor.spec.quiz.questions]


def take(floor: Floor, work: WorkSession, answers: list[int]) -> QuizResult:
    with floor.write() as session:
        return take_quiz(session, work, answers, now=floor.now)


def left(floor: Floor, work: WorkSession) -> int:
    with floor.store.read() as session:
        return attempts_left(session, session_context(session, work))


def waiting(floor: Floor) -> list[tuple[str, int]]:
    with floor.store.read() as session:
        return [(one.worker_id, one.score) for one in ungranted_passes(session, MARKET)]


def quiz(floor: Floor, worker: str = "W1") -> WorkSession:
    return floor.open(worker, kind=HitKind.QUIZ)


def test_a_worker_who_passes_gets_the_qualification_once_confirmed(floor: Floor) -> None:
    work = quiz(floor)
    with pytest.raises(HitIncomplete):
        floor.finish(work)
    assert take(floor, work, right(floor)).passed
    floor.finish(work)
    assert waiting(floor) == []
    floor.confirm(work)
    assert waiting(floor) == [("W1", 100)]


def test_a_score_exactly_at_the_threshold_passes(floor: Floor) -> None:
    answers = right(floor)
    assert floor.spec.quiz is not None
    needed = floor.spec.quiz.pass_share * len(answers)
    assert needed == int(needed), "the sentiment quiz has a share that can be reached exactly"
    answers[int(needed) :] = wrong(floor)[int(needed) :]
    result = take(floor, quiz(floor), answers)
    assert (result.right_answers, result.passed) == (int(needed), True)


def test_wrong_answers_are_explained_and_retakes_are_limited(floor: Floor) -> None:
    work = quiz(floor)
    first = take(floor, work, wrong(floor))
    assert (first.passed, first.right_answers) == (False, 0)
    assert all(explanations(floor.spec, first))
    assert take(floor, work, wrong(floor)).id == first.id
    assert left(floor, work) == 1
    second = take(floor, work, [*right(floor)[:1], *wrong(floor)[1:]])
    assert [one is None for one in explanations(floor.spec, second)][:2] == [True, False]
    with pytest.raises(NothingToDo):
        take(floor, work, right(floor))
    floor.finish(work)
    floor.confirm(work)
    assert waiting(floor) == []
    with pytest.raises(NothingToDo):
        quiz(floor)


def test_after_passing_no_more_answers_are_accepted(floor: Floor) -> None:
    work = quiz(floor)
    passed = take(floor, work, right(floor))
    assert take(floor, work, wrong(floor)).id == passed.id
    assert len(floor.rows(QuizResult)) == 1


def test_a_worker_who_has_passed_gets_no_second_paid_quiz_and_a_forger_cannot_take_it_from_a_worker(
    floor: Floor,
) -> None:
    forged = quiz(floor)
    take(floor, forged, right(floor))
    work = quiz(floor)
    take(floor, work, right(floor))
    floor.finish(work)
    floor.confirm(work)
    with pytest.raises(NothingToDo):
        quiz(floor)
    assert waiting(floor) == [("W1", 100)]


def test_answers_that_are_invalid_use_no_attempt(floor: Floor) -> None:
    work = quiz(floor)
    for answers in ([], [0], [*right(floor), 0], [99] * 4, [-1] * 4, [2**80] * 4):
        with pytest.raises(InvalidInput):
            take(floor, work, answers)
    assert left(floor, work) == 2


def test_no_worker_uses_up_or_passes_the_quiz_for_another_worker(floor: Floor) -> None:
    hit = floor.hit(HitKind.QUIZ)
    forged = floor.open("VICTIM", hit=hit)
    for how in (1, 2):
        take(floor, forged, wrong(floor, how))
    assert left(floor, forged) == 0
    friend = floor.open("FRIEND", hit=hit)
    take(floor, friend, right(floor))
    floor.finish(friend)
    floor.finish(forged)
    floor.confirm(floor.open("W1", hit=hit))
    assert waiting(floor) == []
    assert left(floor, quiz(floor, "VICTIM")) == 2


def test_parallel_attempts_give_no_more_chances_than_sequential_ones(floor: Floor) -> None:
    pages = [quiz(floor) for _ in range(3)]
    for page, answers in zip(pages, (wrong(floor), wrong(floor, 2), right(floor)), strict=True):
        floor.clock.advance(MINUTE)
        take(floor, page, answers)
        floor.finish(page)
    for page in reversed(pages):
        floor.confirm(page)
    assert waiting(floor) == []


def test_a_worker_who_lost_the_qualification_does_not_regain_it_automatically(floor: Floor) -> None:
    work = quiz(floor)
    take(floor, work, right(floor))
    floor.finish(work)
    floor.confirm(work)
    with floor.write() as session:
        held = Qualification(task_id=floor.task.id, marketplace=MARKET, name="q", created_at=floor.now)
        session.add(held)
        session.flush()
        grant = QualificationGrant(qualification_id=held.id, worker_id=work.worker_id, score=100, granted_at=floor.now)
        session.add(grant)
    assert waiting(floor) == []
    with floor.write() as session:
        row = session.get_one(QualificationGrant, grant.id)
        row.revoked_at, row.reason = floor.now, "bad work"
    assert waiting(floor) == []


def test_a_quiz_has_a_deadline_too(floor: Floor) -> None:
    work = quiz(floor)
    floor.clock.advance(timedelta(hours=1))
    with pytest.raises(TimeIsOver):
        take(floor, work, right(floor))


def test_answers_in_other_work_pass_no_quiz_and_use_no_attempt(floor: Floor) -> None:
    with pytest.raises(PageUnknown):
        take(floor, floor.open("W1"), right(floor))
    taken = quiz(floor)
    result = take(floor, taken, right(floor))
    writing = floor.open("W1")
    with floor.write() as session:
        session.get_one(QuizResult, result.id).session_id = writing.id
    floor.confirm(writing)
    assert waiting(floor) == []
    assert left(floor, quiz(floor)) == 2
