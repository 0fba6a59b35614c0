"""Trainings on a runner whose jobs outlive supervisors: started once, found again, and given up when lost."""

from dataclasses import dataclass, field

import pytest

from round_manager.jobs import JobOutcome, JobOwner, JobRequest, JobStatus
from round_manager.learning.training_data import PendingTraining, pending_training
from round_manager.learning.training_jobs import finish_job, list_jobs, start_job
from round_manager.models import TrainingState
from round_manager.services.training_supervisor import TrainingSupervisor, cancel_training
from tests.campaign.training import ACTOR, TASK, TrainingCampaign
from tests.fakes.clock import NOON
from tests.integration.round_manager.conftest import any_training, pack, trainable  # noqa: F401 - fixtures


@dataclass
class Cluster:
    """Jobs by their tokens; each start is listed."""

    durable: bool = True
    statuses: dict[str, JobStatus] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)

    def start(self, request: JobRequest) -> None:
        if self.status(request).outcome is JobOutcome.UNKNOWN:
            self.started.append(request.token)
            self.statuses[request.token] = JobStatus(JobOutcome.RUNNING)

    def status(self, request: JobRequest) -> JobStatus:
        return self.statuses.get(request.token, JobStatus(JobOutcome.UNKNOWN))

    def stop(self, request: JobRequest) -> None:
        self.end(JobOutcome.STOPPED)

    def log(self, request: JobRequest) -> str:
        return ""

    def end(self, outcome: JobOutcome, reason: str = "", *, retry: bool = False) -> None:
        self.statuses[self.started[-1]] = JobStatus(outcome, reason, retry)


@dataclass
class Setup:
    """A task whose round waits for a training, and a cluster."""

    training: TrainingCampaign
    cluster: Cluster = field(default_factory=Cluster)

    def supervisor(self) -> TrainingSupervisor:
        return TrainingSupervisor(self.training.services, ACTOR, self.cluster)

    def job_begins(self) -> int:
        """Record what the job's process records when it begins."""
        with self.training.store.write() as session:
            owner = JobOwner("outfox", "node", 7, self.cluster.started[-1])
            task = self.training.task_in(session)
            return start_job(session, task, self.training.find_round(1), "head", owner, now=NOON).id

    def job_ends(self, job: int, state: TrainingState, reason: str) -> None:
        with self.training.store.write() as session:
            finish_job(session, job, state, reason, now=NOON)

    def jobs(self) -> list[tuple[TrainingState, bool | None]]:
        with self.training.store.read() as session:
            return [(job.state, job.retry) for job in list_jobs(session, self.training.task_in(session))]

    def pending(self) -> PendingTraining | None:
        with self.training.store.read() as session:
            return pending_training(session, self.training.task_in(session))


@pytest.fixture
def setup(trainable: TrainingCampaign) -> Setup:  # noqa: F811
    return Setup(trainable)


def test_two_supervisors_start_one_job(setup: Setup) -> None:
    first, second = setup.supervisor(), setup.supervisor()
    first.start(TASK)
    second.start(TASK)
    assert len(setup.cluster.started) == 1
    assert (first.ended(TASK), second.ended(TASK)) == (None, None)


def test_the_next_supervisor_finds_a_job_that_has_recorded_nothing_yet(setup: Setup) -> None:
    setup.supervisor().start(TASK)
    following = setup.supervisor()
    assert following.ended(TASK) is None
    assert following.pending(TASK) == PendingTraining(1, 0, None)
    following.start(TASK)
    assert len(setup.cluster.started) == 1


def test_the_next_supervisor_follows_a_job_that_has_begun(setup: Setup) -> None:
    setup.supervisor().start(TASK)
    job = setup.job_begins()
    following = setup.supervisor()
    assert (following.pending(TASK), following.ended(TASK), following.running) == (None, None, [TASK])
    setup.job_ends(job, TrainingState.CANCELLED, "cancelled by ada")
    end = following.ended(TASK)
    assert end is not None
    assert (end.failed, end.text, following.running) == (False, "the training was cancelled: cancelled by ada", [])
    assert len(setup.cluster.started) == 1


def test_a_supervisor_that_stops_leaves_its_job_alone(setup: Setup) -> None:
    supervisor = setup.supervisor()
    supervisor.start(TASK)
    supervisor.stop()
    assert [one.outcome for one in setup.cluster.statuses.values()] == [JobOutcome.RUNNING]


def test_a_waiting_job_that_the_cluster_has_forgotten_is_submitted_again(setup: Setup) -> None:
    supervisor = setup.supervisor()
    supervisor.start(TASK)
    setup.cluster.statuses.clear()
    assert supervisor.ended(TASK) is None
    assert setup.cluster.started == [setup.cluster.started[0]] * 2
    assert setup.jobs() == []


def test_a_job_that_had_begun_when_the_cluster_forgot_it_has_failed_and_another_is_started(setup: Setup) -> None:
    setup.supervisor().start(TASK)
    setup.job_begins()
    setup.cluster.statuses.clear()
    supervisor = setup.supervisor()
    end = supervisor.ended(TASK)
    assert end is not None
    assert end.failed
    assert (setup.jobs(), supervisor.pending(TASK)) == ([(TrainingState.FAILED, True)], PendingTraining(1, 0, None))
    supervisor.start(TASK)
    assert len(set(setup.cluster.started)) == 2


def test_a_job_that_never_began_is_recorded_as_failed(setup: Setup) -> None:
    supervisor = setup.supervisor()
    supervisor.start(TASK)
    setup.cluster.end(JobOutcome.FAILED, "no machine became free", retry=True)
    end = supervisor.ended(TASK)
    assert end is not None
    assert (end.failed, setup.jobs()) == (True, [(TrainingState.FAILED, True)])
    supervisor.start(TASK)
    assert len(set(setup.cluster.started)) == 2


@pytest.mark.parametrize("outcome", [JobOutcome.STOPPED, JobOutcome.BUSY])
def test_another_job_follows_one_that_ended_without_a_record(setup: Setup, outcome: JobOutcome) -> None:
    supervisor = setup.supervisor()
    supervisor.start(TASK)
    setup.cluster.end(outcome)
    supervisor.ended(TASK)
    supervisor.start(TASK)
    assert (len(set(setup.cluster.started)), setup.jobs()) == (2, [])


def test_a_job_that_used_another_database_has_failed_and_counts(setup: Setup) -> None:
    supervisor = setup.supervisor()
    supervisor.start(TASK)
    setup.cluster.end(JobOutcome.SUCCEEDED)
    end = supervisor.ended(TASK)
    pending = setup.pending()
    assert (end is not None and end.failed, setup.jobs()) == (True, [(TrainingState.FAILED, False)])
    assert pending is not None
    assert pending.failures == 1


def test_a_waiting_job_can_be_cancelled(setup: Setup) -> None:
    supervisor = setup.supervisor()
    supervisor.start(TASK)
    cancelled = cancel_training(setup.training.services, ACTOR, TASK, setup.cluster)
    assert (cancelled.state, setup.pending()) == (TrainingState.CANCELLED, None)
    end = supervisor.ended(TASK)
    assert end is not None
    assert not end.failed
