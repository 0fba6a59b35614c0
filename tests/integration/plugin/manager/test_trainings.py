"""Trainings as the manager sees them: temporary failures are retried, and only failures count."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from plugin.manager.loop import StepOutcome
from plugin.manager.round_steps import Open, Train
from round_manager.jobs import JobOutcome, JobOwner, JobRequest, JobStatus
from round_manager.learning.training_data import closed_rounds, skip_round
from round_manager.learning.training_jobs import HEARTBEAT_TIMEOUT, finish_job, record_end, start_job
from round_manager.loop.manager_record import problem_steps
from round_manager.models import TrainingJob, TrainingState
from round_manager.services.context import Actor
from round_manager.services.training_supervisor import MAX_FAILURES, TrainingSupervisor, cancel_training
from round_manager.tasks.tasks import find_task
from tests.integration.plugin.manager.company import MANAGER, TASK, Company
from tests.integration.plugin.manager.conftest import Found

STEPS = (Train(), Open())


@dataclass
class EndedRunner:
    """A runner whose trainings end at once, with this status; `record` writes what such a training leaves behind."""

    outcome: JobOutcome
    reason: str = ""
    record: Callable[[str], None] = lambda token: None
    recorded: set[str] = field(default_factory=set)

    def start(self, request: JobRequest) -> None: ...

    def stop(self, request: JobRequest) -> None: ...

    def status(self, request: JobRequest) -> JobStatus:
        if request.token not in self.recorded:
            self.recorded.add(request.token)
            self.record(request.token)
        return JobStatus(self.outcome, self.reason)

    def log(self, request: JobRequest) -> str:
        return ""


@pytest.fixture
def learnable(small: Found) -> Company:
    """A company whose first round is frozen and waits for a training."""
    company = small(rounds={"target_fooling": 1})
    company.training_ends, company.training_may_pass = TrainingState.FAILED, True
    company.play(lambda: company.is_over(1))
    return company


def train(company: Company, runner: EndedRunner) -> list[StepOutcome]:
    """Two passes of a manager with this runner: a training starts, and its end is seen."""
    trainings = TrainingSupervisor(company.service_context, Actor(MANAGER), runner)
    company.manage(STEPS, trainings=trainings)
    return company.manage(STEPS, trainings=trainings)


def failing(company: Company) -> list[str]:
    with company.store.read() as session:
        return [one.name for one in problem_steps(session) if one.error]


def test_an_outage_of_any_length_ends_with_the_next_round(learnable: Company) -> None:
    company = learnable
    begun = company.clock.now()
    while len(company.trained) < 3 * MAX_FAILURES:
        company.manage(STEPS, respect_backoff=True)
        company.clock.advance(timedelta(minutes=2))
    assert company.clock.now() - begun > timedelta(hours=1), "it is tried more and more seldom"
    assert (failing(company), company.statuses()) == (["train"], ["closed"])
    company.training_ends = TrainingState.ROTATED
    for _ in range(3):
        company.manage(STEPS)
    assert (failing(company), company.statuses()) == ([], ["closed", "open"])


def test_a_round_with_nothing_to_learn_is_reported_and_the_next_opens_with_the_same_model(learnable: Company) -> None:
    before = learnable.registry.pins(TASK)

    def record(token: str) -> None:
        with learnable.store.write() as session:
            task = find_task(session, TASK)
            skip_round(session, task, "all rows are copies", actor=MANAGER, now=learnable.clock.now())

    trained, opened = train(learnable, EndedRunner(JobOutcome.FAILED, record=record))
    assert trained.result.done == "the next round needs no new model: all rows are copies"
    assert opened.result.done.startswith("round 2 is open against")
    assert (failing(learnable), learnable.registry.pins(TASK)) == ([], before)


def test_a_training_by_another_process_is_not_a_failure(learnable: Company) -> None:
    learnable.training_ends = TrainingState.ROTATED
    earlier = failing(learnable)
    trained, opened = train(learnable, EndedRunner(JobOutcome.BUSY))
    assert (trained.error, trained.result.in_progress) == ("", True)
    assert failing(learnable) == earlier, "what failed before stands until its end is seen"
    assert opened.result.done == ""


def test_a_reused_pid_does_not_inherit_an_earlier_success(small: Found) -> None:
    company = small(rounds={"target_fooling": 1})
    company.play(lambda: len(company.rounds()) == 2)
    number = company.floor.rows(TrainingJob)[-1].pid
    company.training_ends = TrainingState.FAILED
    company.play(lambda: company.is_over(2))

    def record(token: str) -> None:
        with company.store.write() as session:
            owner = JobOwner(MANAGER, "here", number, token)
            record_end(session, find_task(session, TASK), owner, "head", "no memory", now=company.clock.now())

    trained, _ = train(company, EndedRunner(JobOutcome.FAILED, record=record))
    assert trained.error.endswith("no memory")


def test_a_cancelled_training_that_died_is_not_restarted(learnable: Company) -> None:
    company = learnable
    with company.store.write() as session:
        task = find_task(session, TASK)
        last = closed_rounds(session, task)[-1]
        start_job(session, task, last, "head", JobOwner(MANAGER, "gone", 7), now=company.clock.now())
    cancel_training(company.service_context, Actor("ada@desk"), TASK)
    tried = len(company.trained)
    company.settle()
    assert company.statuses() == ["closed"], "its process may live"
    company.clock.advance(HEARTBEAT_TIMEOUT)
    company.settle()
    assert (len(company.trained), company.statuses()) == (tried, ["closed", "open"])


def test_a_stop_by_the_system_is_retried_and_not_counted(learnable: Company) -> None:
    def record(token: str) -> None:
        with learnable.store.write() as session:
            task, now = find_task(session, TASK), learnable.clock.now()
            last = closed_rounds(session, task)[-1]
            job = start_job(session, task, last, "head", JobOwner(MANAGER, "here", 8, token), now=now)
            finish_job(session, job.id, TrainingState.STOPPED, "stopped by its user", now=now)

    for _ in range(2 * MAX_FAILURES):
        trained, _ = train(learnable, EndedRunner(JobOutcome.STOPPED, record=record))
        assert trained.error.endswith("stopped by its user")
    learnable.training_ends = TrainingState.ROTATED
    learnable.settle()
    assert learnable.statuses() == ["closed", "open"]
