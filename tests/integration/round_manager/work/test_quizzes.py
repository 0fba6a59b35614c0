"""Quizzes are scored by the server, limited by the task, and count for workers whom the marketplace confirms."""

from datetime import timedelta

import pytest

from round_manager.models import HitKind, Qualification, QualificationGrant, QuizResult, WorkSession
from round_manager.work.errors import HitIncomplete, InvalidInput, NothingToDo, PageUnknown, TimeIsOver
from round_manager.work.quizzes import attempts_left, explanations, take_quiz, ungranted_passes
from round_manager.work.sessions import session_context
from tests.campaign import MARKET, MINUTE, Campaign


def right(campaign: Campaign) -> list[int]:
    assert campaign.spec.quiz is not None
    return [one.answer for one in campaign.spec.quiz.questions]


def wrong(campaign: Campaign, how: int = 1) -> list[int]:
    assert campaign.spec.quiz is not None
    return [(one.answer + how) % len(one.choices) for one in campaign.spec.quiz.questions]


def take(campaign: Campaign, work: WorkSession, answers: list[int]) -> QuizResult:
    with campaign.store.write() as session:
        return take_quiz(session, work, answers, now=campaign.now)


def left(campaign: Campaign, work: WorkSession) -> int:
    with campaign.store.read() as session:
        return attempts_left(session, session_context(session, work))


def waiting(campaign: Campaign) -> list[tuple[str, int]]:
    with campaign.store.read() as session:
        return [(one.worker_id, one.score) for one in ungranted_passes(session, MARKET)]


def quiz(campaign: Campaign, worker: str = "W1") -> WorkSession:
    return campaign.open_page(worker, kind=HitKind.QUIZ)


@pytest.mark.any_database
def test_a_worker_who_passes_gets_the_qualification_once_confirmed(campaign: Campaign) -> None:
    work = quiz(campaign)
    with pytest.raises(HitIncomplete):
        campaign.finish_page(work)
    assert take(campaign, work, right(campaign)).passed
    campaign.finish_page(work)
    assert waiting(campaign) == []
    campaign.confirm(work)
    assert waiting(campaign) == [("W1", 100)]


@pytest.mark.any_database
def test_a_score_exactly_at_the_threshold_passes(campaign: Campaign) -> None:
    answers = right(campaign)
    assert campaign.spec.quiz is not None
    needed = campaign.spec.quiz.pass_share * len(answers)
    assert needed == int(needed), "the sentiment quiz has a share that can be reached exactly"
    answers[int(needed) :] = wrong(campaign)[int(needed) :]
    result = take(campaign, quiz(campaign), answers)
    assert (result.right_answers, result.passed) == (int(needed), True)


@pytest.mark.any_database
def test_wrong_answers_are_explained_and_retakes_are_limited(campaign: Campaign) -> None:
    work = quiz(campaign)
    first = take(campaign, work, wrong(campaign))
    assert (first.passed, first.right_answers) == (False, 0)
    assert all(explanations(campaign.spec, first))
    assert take(campaign, work, wrong(campaign)).id == first.id
    assert left(campaign, work) == 1
    second = take(campaign, work, [*right(campaign)[:1], *wrong(campaign)[1:]])
    assert [one is None for one in explanations(campaign.spec, second)][:2] == [True, False]
    with pytest.raises(NothingToDo):
        take(campaign, work, right(campaign))
    campaign.finish_page(work)
    campaign.confirm(work)
    assert waiting(campaign) == []
    with pytest.raises(NothingToDo):
        quiz(campaign)


def test_after_passing_no_more_answers_are_accepted(campaign: Campaign) -> None:
    work = quiz(campaign)
    passed = take(campaign, work, right(campaign))
    assert take(campaign, work, wrong(campaign)).id == passed.id
    assert len(campaign.rows(QuizResult)) == 1


@pytest.mark.any_database
def test_a_worker_who_has_passed_gets_no_second_paid_quiz_and_a_forger_cannot_take_it_from_a_worker(
    campaign: Campaign,
) -> None:
    forged = quiz(campaign)
    take(campaign, forged, right(campaign))
    work = quiz(campaign)
    take(campaign, work, right(campaign))
    campaign.finish_page(work)
    campaign.confirm(work)
    with pytest.raises(NothingToDo):
        quiz(campaign)
    assert waiting(campaign) == [("W1", 100)]


@pytest.mark.any_database
def test_answers_that_are_invalid_use_no_attempt(campaign: Campaign) -> None:
    work = quiz(campaign)
    for answers in ([], [0], [*right(campaign), 0], [99] * 4, [-1] * 4, [2**80] * 4):
        with pytest.raises(InvalidInput):
            take(campaign, work, answers)
    assert left(campaign, work) == 2


@pytest.mark.any_database
def test_no_worker_uses_up_or_passes_the_quiz_for_another_worker(campaign: Campaign) -> None:
    hit = campaign.add_hit(HitKind.QUIZ)
    forged = campaign.open_page("VICTIM", hit=hit)
    for how in (1, 2):
        take(campaign, forged, wrong(campaign, how))
    assert left(campaign, forged) == 0
    friend = campaign.open_page("FRIEND", hit=hit)
    take(campaign, friend, right(campaign))
    campaign.finish_page(friend)
    campaign.finish_page(forged)
    campaign.confirm(campaign.open_page("W1", hit=hit))
    assert waiting(campaign) == []
    assert left(campaign, quiz(campaign, "VICTIM")) == 2


@pytest.mark.any_database
def test_parallel_attempts_give_no_more_chances_than_sequential_ones(campaign: Campaign) -> None:
    pages = [quiz(campaign) for _ in range(3)]
    for page, answers in zip(pages, (wrong(campaign), wrong(campaign, 2), right(campaign)), strict=True):
        campaign.clock.advance(MINUTE)
        take(campaign, page, answers)
        campaign.finish_page(page)
    for page in reversed(pages):
        campaign.confirm(page)
    assert waiting(campaign) == []


def test_a_worker_who_lost_the_qualification_does_not_regain_it_automatically(campaign: Campaign) -> None:
    work = quiz(campaign)
    take(campaign, work, right(campaign))
    campaign.finish_page(work)
    campaign.confirm(work)
    with campaign.store.write() as session:
        held = Qualification(task_id=campaign.task.id, marketplace=MARKET, name="q", created_at=campaign.now)
        session.add(held)
        session.flush()
        grant = QualificationGrant(
            qualification_id=held.id, worker_id=work.worker_id, score=100, granted_at=campaign.now
        )
        session.add(grant)
    assert waiting(campaign) == []
    with campaign.store.write() as session:
        row = session.get_one(QualificationGrant, grant.id)
        row.revoked_at, row.reason = campaign.now, "bad work"
    assert waiting(campaign) == []


@pytest.mark.any_database
def test_a_quiz_has_a_deadline_too(campaign: Campaign) -> None:
    work = quiz(campaign)
    campaign.clock.advance(timedelta(hours=1))
    with pytest.raises(TimeIsOver):
        take(campaign, work, right(campaign))


def test_answers_in_other_work_pass_no_quiz_and_use_no_attempt(campaign: Campaign) -> None:
    with pytest.raises(PageUnknown):
        take(campaign, campaign.open_page("W1"), right(campaign))
    taken = quiz(campaign)
    result = take(campaign, taken, right(campaign))
    writing = campaign.open_page("W1")
    with campaign.store.write() as session:
        session.get_one(QuizResult, result.id).session_id = writing.id
    campaign.confirm(writing)
    assert waiting(campaign) == []
    assert left(campaign, quiz(campaign)) == 2
