"""Trainings as the manager sees them: what may pass is tried on, and what is nobody's failure is told as none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from common.clock import Clock
from plugin.cancellation import cancel_training
from plugin.manager.loop import StepOutcome
from plugin.manager.round_steps import Open, Train
from plugin.manager.trainings import MOST_FAILURES, Trainings
from plugin.training_process import SOMEBODY_ELSE
from round_manager.database.store import Store
from round_manager.learning.jobs import (
    SILENT,
    Trainer,
    begin,
    finish,
    new_token,
    pass_over,
    tell_failure,
)
from round_manager.learning.rows import closed_rounds
from round_manager.loop.manager_record import troubles
from round_manager.models import TrainingJob, TrainingState
from round_manager.tasks.tasks import find_task
from tests.integration.plugin.manager.company import MANAGER, TASK, Company
from tests.integration.plugin.manager.conftest import Found

STEPS = (Train(), Open())


@dataclass
class Child:
    """A training that ended at once, with this exit code, and of which `tell` tells what it left behind."""

    code: int
    tell: Callable[["Child", Store, Clock], None] = lambda child, store, clock: None
    token: str = field(default_factory=new_token)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def tell_end(self, store: Store, clock: Clock) -> int | None:
        self.tell(self, store, clock)
        return self.code


@pytest.fixture
def learnable(small: Found) -> Company:
    """A company whose first round is frozen and waits to be learned from."""
    company = small(rounds={"target_fooling": 1})
    company.training_ends, company.training_may_pass = TrainingState.FAILED, True
    company.play(lambda: company.is_over(1))
    return company


def train(company: Company, child: Child) -> list[StepOutcome]:
    """Two passes of a manager whose training is this one: it begins, and its end is seen."""
    trainings = Trainings(company.store, company.clock, lambda task: child)
    company.manage(STEPS, trainings=trainings)
    return company.manage(STEPS, trainings=trainings)


def failing(company: Company) -> list[str]:
    with company.store.read() as session:
        return [one.name for one in troubles(session) if one.error]


def test_an_outage_of_any_length_ends_with_the_next_round(learnable: Company) -> None:
    company = learnable
    begun = company.clock.now()
    while len(company.trained) < 3 * MOST_FAILURES:
        company.manage(STEPS, respect_backoff=True)
        company.clock.advance(timedelta(minutes=2))
    assert company.clock.now() - begun > timedelta(hours=1), "it is tried more and more seldom"
    assert (failing(company), company.statuses()) == (["train"], ["closed"])
    company.training_ends = TrainingState.ROTATED
    for _ in range(3):
        company.manage(STEPS)
    assert (failing(company), company.statuses()) == ([], ["closed", "open"])


def test_a_round_that_teaches_nothing_is_told_and_the_next_one_opens_against_what_answers(learnable: Company) -> None:
    before = learnable.registry.pins(TASK)

    def tell(child: Child, store: Store, clock: Clock) -> None:
        with store.write() as session:
            pass_over(session, find_task(session, TASK), "all rows are copies", who=MANAGER, now=clock.now())

    trained, opened = train(learnable, Child(2, tell))
    assert trained.result.done == "the next round needs no new model: all rows are copies"
    assert opened.result.done.startswith("round 2 is open against")
    assert (failing(learnable), learnable.registry.pins(TASK)) == ([], before)


def test_that_somebody_else_trains_already_is_no_failure(learnable: Company) -> None:
    learnable.training_ends = TrainingState.ROTATED
    earlier = failing(learnable)
    trained, opened = train(learnable, Child(SOMEBODY_ELSE))
    assert (trained.error, trained.result.in_progress) == ("", True)
    assert failing(learnable) == earlier, "what failed before stands until its end is seen"
    assert opened.result.done == ""


def test_a_process_that_has_the_number_of_an_earlier_one_does_not_borrow_its_success(small: Found) -> None:
    company = small(rounds={"target_fooling": 1})
    company.play(lambda: len(company.rounds()) == 2)
    number = company.floor.rows(TrainingJob)[-1].pid
    company.training_ends = TrainingState.FAILED
    company.play(lambda: company.is_over(2))

    def tell(child: Child, store: Store, clock: Clock) -> None:
        with store.write() as session:
            trainer = Trainer(MANAGER, "here", number, child.token)
            tell_failure(session, find_task(session, TASK), trainer, "head", "no memory", now=clock.now())

    trained, _ = train(company, Child(1, tell))
    assert trained.error == "the training ended with exit code 1: no memory"


def test_a_training_that_was_cancelled_and_died_is_not_begun_again(learnable: Company) -> None:
    company = learnable
    with company.store.write() as session:
        task = find_task(session, TASK)
        last = closed_rounds(session, task)[-1]
        begin(session, task, last, "head", Trainer(MANAGER, "gone", 7), now=company.clock.now())
    cancel_training(company.store, TASK, who="ada@desk", clock=company.clock)
    tried = len(company.trained)
    company.settle()
    assert company.statuses() == ["closed"], "its process may live"
    company.clock.advance(SILENT)
    company.settle()
    assert (len(company.trained), company.statuses()) == (tried, ["closed", "open"])


def test_a_stop_by_the_machine_is_tried_again_and_not_counted(learnable: Company) -> None:
    def tell(child: Child, store: Store, clock: Clock) -> None:
        with store.write() as session:
            task = find_task(session, TASK)
            last = closed_rounds(session, task)[-1]
            job = begin(session, task, last, "head", Trainer(MANAGER, "here", 8, child.token), now=clock.now())
            finish(session, job.id, TrainingState.STOPPED, "told to end", now=clock.now())
            child.tell = lambda *_: None

    for _ in range(2 * MOST_FAILURES):
        trained, _ = train(learnable, Child(130, tell))
        assert trained.error == "the training ended with exit code 130: told to end"
    learnable.training_ends = TrainingState.ROTATED
    learnable.settle()
    assert learnable.statuses() == ["closed", "open"]
