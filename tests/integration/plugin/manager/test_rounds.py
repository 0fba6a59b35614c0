"""How rounds progress: which HITs are posted and expired, how rounds end, and what the next one waits for."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from plugin.manager.round_steps import Move, Open
from plugin.manager.step import NOTHING
from round_manager.database.store import Store
from round_manager.loop.lifecycle import begin_validating, pause, resume
from round_manager.loop.manager_record import problem_steps
from round_manager.models import (
    EntryKind,
    EntryState,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    LedgerEntry,
    QualificationGrant,
    Round,
    RoundStatus,
    Task,
    TrainingState,
)
from round_manager.money.budget import set_round_budget
from round_manager.services.training_supervisor import MAX_FAILURES
from round_manager.work.quizzes import take_quiz
from tests.integration.plugin.manager.company import TASK, Company
from tests.integration.plugin.manager.conftest import Found

HOUR = timedelta(hours=1)


def waits(company: Company) -> dict[str, str]:
    with company.store.read() as session:
        return {one.name: one.waits for one in problem_steps(session) if one.waits}


def failures(company: Company) -> dict[str, str]:
    with company.store.read() as session:
        return {one.name: one.error for one in problem_steps(session) if one.error}


def raise_budget(company: Company, cents: int) -> None:
    with company.store.write() as session:
        round = session.get_one(Round, company.floor.round.id)
        task = session.get_one(Task, round.task_id)
        set_round_budget(session, task, round, cents, actor="owner", reason="a test", now=company.clock.now())


def test_a_budget_ends_a_round_and_is_never_overshot(small: Found) -> None:
    company = small(rounds={"target_fooling": 50}, budget={"round_cents": 900, "task_cents": 60_000})
    company.last_round = 1
    company.play(lambda: company.is_over(1))
    spent = company.rounds()[0].sent_cents
    assert company.rounds()[0].status is RoundStatus.CLOSED
    assert 500 < spent <= 900
    # Every example got enough votes to be decided.
    assert {one.status for one in company.floor.rows(Example)} == {ExampleStatus.VERIFIED}


def test_examples_that_do_not_fool_the_model_are_replaced(small: Found) -> None:
    company = small()
    company.last_round = 1
    company.settle()
    company.write(2, fooling=False)
    company.play(lambda: company.is_over(1))
    examples = company.floor.rows(Example)
    # The first examples show that not all will fool the model, so a few more were requested than are missing.
    assert 3 <= sum(one.status is ExampleStatus.VERIFIED for one in examples) <= 5
    assert sum(one.status is ExampleStatus.UNCHECKED for one in examples) == 2


def test_disagreement_costs_more_votes_and_no_bonus(small: Found) -> None:
    company = small(rounds={"target_fooling": 1}, validation={"first_votes": 2, "max_votes": 3})
    company.last_round = 1
    company.settle()
    company.write()
    company.settle()
    company.check(agree=False)
    company.settle()
    (example,) = company.floor.rows(Example)
    assert example.status is ExampleStatus.DISPUTED
    assert (
        company.floor.rows(LedgerEntry, LedgerEntry.kind == EntryKind.BONUS, LedgerEntry.state == EntryState.OWED) == []
    )
    # The target is not reached: another example is asked for.
    assert len(company.standing(HitKind.CREATE)) == 1


def test_hits_that_a_round_no_longer_needs_are_expired(small: Found) -> None:
    company = small()
    company.last_round = 1
    company.settle()
    with company.store.write() as session:
        round = session.get_one(Round, company.floor.round.id)
        begin_validating(session, round, actor="owner", reason="enough", now=company.clock.now())
    company.settle()
    assert company.statuses()[0] == "closed"
    assert {hit.status for hit in company.floor.rows(Hit)} == {HitStatus.REVIEWABLE}
    assert company.rounds()[0].sent_cents == company.rounds()[0].reserved_cents == 0


def test_a_paused_round_gets_no_new_hits_until_it_resumes(small: Found) -> None:
    company = small()
    for step, standing in ((pause, 0), (resume, 3)):
        with company.store.write() as session:
            round = session.get_one(Round, company.floor.round.id)
            step(session, round, actor="owner", reason="a test", now=company.clock.now())
        company.settle()
        assert len(company.floor.rows(Hit)) == standing


class PausedMeanwhile(Store):
    """A store in which the owner pauses the round just before the next write."""

    def __init__(self, company: Company) -> None:
        super().__init__(company.store.engine)
        self._company = company

    @contextmanager
    def write(self) -> Iterator[Session]:
        with self._company.store.write() as session:
            round = session.get_one(Round, self._company.floor.round.id)
            pause(session, round, actor="owner", reason="wait", now=self._company.clock.now())
        with super().write() as session:
            yield session


@pytest.mark.parametrize("status", [RoundStatus.OPEN, RoundStatus.VALIDATING])
def test_a_pause_during_a_managers_pass_is_not_undone(small: Found, status: RoundStatus) -> None:
    company = small()
    company.clock.advance(400 * 24 * HOUR)
    if status is RoundStatus.VALIDATING:
        with company.store.write() as session:
            round = session.get_one(Round, company.floor.round.id)
            begin_validating(session, round, actor="owner", reason="enough", now=company.clock.now())
    assert Move().preview(company.context(), TASK)
    assert Move().run(company.context(store=PausedMeanwhile(company)), TASK) == NOTHING
    round = company.floor.one(company.floor.round)
    assert (round.status, round.paused_at) == (status, company.clock.now())


def test_a_worker_who_passes_the_quiz_is_qualified_and_paid(small: Found) -> None:
    company = small(people=False)
    company.settle()
    (hit,) = company.standing(HitKind.QUIZ)
    assert hit.max_assignments == 7
    page = company.take(hit, "NEW")
    assert page is not None
    quiz = company.floor.spec.quiz
    assert quiz is not None
    with company.floor.write() as session:
        take_quiz(session, page, [one.answer for one in quiz.questions], now=company.clock.now())
    company.submit(hit, "NEW", page)
    company.settle()
    assert len(company.floor.rows(QualificationGrant)) == 1
    (paid,) = company.floor.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    assert paid.cents == company.floor.spec.pay.quiz_cents
    # Every qualified worker can write.
    assert company.take(company.standing(HitKind.CREATE)[0], "NEW") is not None


def test_pay_is_topped_up_to_the_minimum_before_a_round_closes(small: Found) -> None:
    company = small(rounds={"target_fooling": 1}, pay={"minimum_hourly_cents": 1_500})
    company.last_round = 1
    company.slow = HOUR / 4
    company.play(lambda: company.is_over(1))
    top_ups = company.floor.rows(LedgerEntry, LedgerEntry.kind == EntryKind.TOP_UP)
    # A quarter of an hour at 15 dollars is worth 375 cents: 270 more for the author who got 45 and a bonus of 60.
    assert sorted(one.cents for one in top_ups) == [270, 325, 325]
    assert {one.state for one in top_ups} == {EntryState.CONFIRMED}


def test_a_round_stays_open_if_its_budget_does_not_cover_top_ups(small: Found) -> None:
    few = {"round_cents": 400, "task_cents": 60_000}
    company = small(rounds={"target_fooling": 1}, pay={"minimum_hourly_cents": 1_500}, budget=few)
    company.last_round = 1
    company.slow = HOUR / 4
    for _ in range(4):
        company.settle()
        company.write()
        company.check()
    assert company.statuses()[0] == "validating"
    assert "$11.04" in failures(company)["top-up"]
    raise_budget(company, 4_000)
    company.play(lambda: company.is_over(1))
    assert failures(company) == {}


def test_the_next_round_waits_for_a_budget_that_covers_it(small: Found) -> None:
    company = small(rounds={"target_fooling": 1}, budget={"round_cents": 1_000, "task_cents": 1_100})
    company.play(lambda: company.is_over(1))
    assert list(waits(company)) == ["open"]
    assert Open().preview(company.context(), TASK).startswith("wait: ")
    with company.store.write() as session:
        session.get_one(Task, company.floor.task.id).budget_cents = 5_000
    assert Open().preview(company.context(), TASK) == "open round 2"
    assert len(company.rounds()) == 1
    company.settle()
    assert company.statuses() == ["closed", "open"]
    assert waits(company) == {}


def test_a_model_that_fails_the_guard_does_not_end_the_loop(small: Found) -> None:
    company = small(rounds={"target_fooling": 1})
    company.training_ends = TrainingState.REFUSED
    before = company.registry.pins("sentiment")
    company.play(lambda: len(company.rounds()) == 2)
    assert company.registry.pins("sentiment") == before
    assert company.statuses() == ["closed", "open"]


def test_a_failed_training_is_retried_and_no_round_opens_without_it(small: Found) -> None:
    company = small(rounds={"target_fooling": 1})
    company.training_ends = TrainingState.FAILED
    company.play(lambda: company.is_over(1))
    assert list(failures(company)) == ["train"]
    for _ in range(2 * MAX_FAILURES):
        company.manage()
    assert company.statuses() == ["closed"]
    assert "outfox model retrain sentiment" in waits(company)["train"]
    assert len(company.trained) == MAX_FAILURES
