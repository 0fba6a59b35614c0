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
from tests.integration.plugin.manager.conftest import NewManaged
from tests.integration.plugin.manager.managed_campaign import MANAGER, TASK, ManagedCampaign

STEPS = (Train(), Open())


@dataclass
class EndedRunner:
    """A runner whose trainings end at once, with this status; `record` writes what such a training leaves behind."""

    outcome: JobOutcome
    reason: str = ""
    record: Callable[[str], None] = lambda token: None
    recorded: set[str] = field(default_factory=set)
    durable: bool = False

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
def learnable(new_campaign: NewManaged) -> ManagedCampaign:
    """A campaign whose first round is frozen and waits for a training."""
    campaign = new_campaign(rounds={"target_fooling": 1})
    campaign.training_ends, campaign.training_may_pass = TrainingState.FAILED, True
    campaign.play(lambda: campaign.is_over(1))
    return campaign


def train(campaign: ManagedCampaign, runner: EndedRunner) -> list[StepOutcome]:
    """Two passes of a manager with this runner: a training starts, and its end is seen."""
    trainings = TrainingSupervisor(campaign.manager_services, Actor(MANAGER), runner)
    campaign.manage(STEPS, trainings=trainings)
    return campaign.manage(STEPS, trainings=trainings)


def failing(campaign: ManagedCampaign) -> list[str]:
    with campaign.store.read() as session:
        return [one.name for one in problem_steps(session) if one.error]


def test_an_outage_of_any_length_ends_with_the_next_round(learnable: ManagedCampaign) -> None:
    campaign = learnable
    begun = campaign.now
    while len(campaign.trained) < 3 * MAX_FAILURES:
        campaign.manage(STEPS, respect_backoff=True)
        campaign.clock.advance(timedelta(minutes=2))
    assert campaign.now - begun > timedelta(hours=1), "it is tried more and more seldom"
    assert (failing(campaign), campaign.statuses()) == (["train"], ["closed"])
    campaign.training_ends = TrainingState.ROTATED
    for _ in range(3):
        campaign.manage(STEPS)
    assert (failing(campaign), campaign.statuses()) == ([], ["closed", "open"])


def test_a_round_with_nothing_to_learn_is_reported_and_the_next_opens_with_the_same_model(
    learnable: ManagedCampaign,
) -> None:
    before = learnable.registry.pins(TASK)

    def record(token: str) -> None:
        with learnable.store.write() as session:
            task = find_task(session, TASK)
            skip_round(session, task, "all rows are copies", actor=MANAGER, now=learnable.clock.now())

    trained, opened = train(learnable, EndedRunner(JobOutcome.FAILED, record=record))
    assert trained.result.done == "the next round needs no new model: all rows are copies"
    assert opened.result.done.startswith("round 2 is open against")
    assert (failing(learnable), learnable.registry.pins(TASK)) == ([], before)


def test_a_training_by_another_process_is_not_a_failure(learnable: ManagedCampaign) -> None:
    learnable.training_ends = TrainingState.ROTATED
    earlier = failing(learnable)
    trained, opened = train(learnable, EndedRunner(JobOutcome.BUSY))
    assert (trained.error, trained.result.in_progress) == ("", True)
    assert failing(learnable) == earlier, "what failed before stands until its end is seen"
    assert opened.result.done == ""


def test_a_reused_pid_does_not_inherit_an_earlier_success(new_campaign: NewManaged) -> None:
    campaign = new_campaign(rounds={"target_fooling": 1})
    campaign.play(lambda: len(campaign.rounds()) == 2)
    number = campaign.rows(TrainingJob)[-1].pid
    campaign.training_ends = TrainingState.FAILED
    campaign.play(lambda: campaign.is_over(2))

    def record(token: str) -> None:
        with campaign.store.write() as session:
            owner = JobOwner(MANAGER, "here", number, token)
            record_end(session, find_task(session, TASK), owner, "head", "no memory", now=campaign.now)

    trained, _ = train(campaign, EndedRunner(JobOutcome.FAILED, record=record))
    assert trained.error.endswith("no memory")


def test_a_cancelled_training_that_died_is_not_restarted(learnable: ManagedCampaign) -> None:
    campaign = learnable
    with campaign.store.write() as session:
        task = find_task(session, TASK)
        last = closed_rounds(session, task)[-1]
        start_job(session, task, last, "head", JobOwner(MANAGER, "gone", 7), now=campaign.now)
    cancel_training(campaign.manager_services, Actor("ada@desk"), TASK)
    tried = len(campaign.trained)
    campaign.settle()
    assert campaign.statuses() == ["closed"], "its process may live"
    campaign.clock.advance(HEARTBEAT_TIMEOUT)
    campaign.settle()
    assert (len(campaign.trained), campaign.statuses()) == (tried, ["closed", "open"])


def test_a_stop_by_the_system_is_retried_and_not_counted(learnable: ManagedCampaign) -> None:
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
