"""The local JobRunner: how a process ends, and what is recorded of its training."""

import os
import signal
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from plugin.jobs.local import LocalJobRunner
from plugin.jobs.process import BUSY_CODE
from round_manager.jobs import JobOutcome, JobOwner, JobRequest, JobStatus
from round_manager.learning.training_data import PendingTraining, pending_training
from round_manager.learning.training_jobs import list_jobs, start_job
from round_manager.models import TrainingState
from round_manager.services.training_supervisor import record_job_end
from tests.campaign.training import ACTOR, TASK, TrainingCampaign
from tests.fakes.clock import NOON
from tests.fakes.registry import eventually
from tests.integration.round_manager.conftest import any_training, pack, trainable  # noqa: F401 - fixtures

ENDLESS = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {ENDLESS}"


@dataclass
class RunnerSetup:
    """A task whose round waits for a training, and a runner whose jobs run other programs and share a log."""

    training: TrainingCampaign
    log: Path
    program: str = ""

    @cached_property
    def runner(self) -> LocalJobRunner:
        return LocalJobRunner(os.environ, lambda request: self.log, lambda _: [sys.executable, "-c", self.program])

    def started(self, program: str) -> JobRequest:
        self.program, request = program, JobRequest("training", TASK, "head")
        self.runner.start(request)
        return request

    def record_end(self, request: JobRequest) -> JobStatus:
        status = self.runner.status(request)
        record_job_end(self.training.services, ACTOR, request, status)
        return status

    def ended(self, program: str) -> JobStatus:
        """Return the status of a job that ends without a stop; it is recorded twice, as by a polling manager."""
        request = self.started(program)
        eventually(lambda: self.runner.status(request).has_ended, "it has ended", 30)
        assert self.record_end(request) == self.record_end(request)
        return self.record_end(request)

    def start_job(self, request: JobRequest) -> None:
        with self.training.store.write() as session:
            owner = JobOwner("outfox", "here", self.runner.status(request).pid, request.token)
            start_job(session, self.training.task_in(session), self.training.find_round(1), "head", owner, now=NOON)

    def jobs(self) -> list[tuple[TrainingState, str]]:
        with self.training.store.read() as session:
            return [(job.state, str(job.reason)) for job in list_jobs(session, self.training.task_in(session))]

    def pending(self) -> PendingTraining | None:
        with self.training.store.read() as session:
            return pending_training(session, self.training.task_in(session))

    def wait_for_output(self) -> None:
        eventually(lambda: "here" in self.log.read_text(), "it runs", 30)


@pytest.fixture
def setup(trainable: TrainingCampaign, tmp_path: Path) -> RunnerSetup:  # noqa: F811
    return RunnerSetup(trainable, tmp_path / "training.log")


def test_a_job_that_is_stopped_before_its_training_started_has_not_failed(setup: RunnerSetup) -> None:
    for _ in range(6):
        request = setup.started(ENDLESS)
        assert setup.runner.status(request).outcome is JobOutcome.RUNNING
        setup.runner.stop(request)
        assert setup.record_end(request).outcome is JobOutcome.STOPPED
    assert (setup.jobs(), setup.pending()) == ([], PendingTraining(1, 0, None))


@pytest.mark.parametrize("program", [ENDLESS, STUBBORN], ids=["willing", "stubborn"])
def test_a_training_that_is_stopped_is_recorded_as_stopped_even_if_it_must_be_killed(
    setup: RunnerSetup, program: str
) -> None:
    request = setup.started(program)
    setup.wait_for_output()
    setup.start_job(request)
    setup.runner.stop(request, seconds=0.2)
    setup.record_end(request)
    ((state, _),) = setup.jobs()
    assert (state, setup.pending()) == (TrainingState.STOPPED, PendingTraining(1, 0, None))


def test_a_job_that_another_process_terminates_has_not_failed_either(setup: RunnerSetup) -> None:
    request = setup.started(ENDLESS)
    setup.wait_for_output()
    os.kill(setup.runner.status(request).pid, signal.SIGTERM)
    eventually(lambda: setup.runner.status(request).has_ended, "it has ended")
    assert setup.record_end(request).outcome is JobOutcome.STOPPED
    assert setup.jobs() == []


def test_a_job_that_was_killed_has_failed(setup: RunnerSetup) -> None:
    assert setup.ended("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").outcome is JobOutcome.FAILED
    ((state, reason),) = setup.jobs()
    assert (state, "SIGKILL" in reason, setup.pending() is not None) == (TrainingState.FAILED, True, True)


def test_failures_that_a_retry_may_resolve_are_recorded_but_not_counted(setup: RunnerSetup) -> None:
    for _ in range(6):
        assert setup.ended("print('outfox: the registry does not respond'); raise SystemExit(3)").retry
    assert set(setup.jobs()) == {(TrainingState.FAILED, "the registry does not respond")}
    assert setup.pending() == PendingTraining(1, 0, None)
    assert not setup.ended("print('outfox: the pack is missing'); raise SystemExit(2)").retry
    assert setup.pending() == PendingTraining(1, 1, "the pack is missing")


def test_a_job_that_found_another_process_training_gets_no_record(setup: RunnerSetup) -> None:
    assert setup.ended(f"raise SystemExit({BUSY_CODE})").outcome is JobOutcome.BUSY
    assert setup.jobs() == []


def test_only_the_output_of_the_job_itself_is_its_reason(setup: RunnerSetup) -> None:
    setup.log.write_text("outfox: m0123 was not rotated in\n")
    setup.ended("raise ImportError('libfoo.so.1: cannot open')")
    assert setup.jobs() == [(TrainingState.FAILED, "exit code 1")]
    setup.ended("print('outfox: the pack is missing'); raise SystemExit(2)")
    assert setup.jobs()[0] == (TrainingState.FAILED, "the pack is missing")


def test_starting_a_job_twice_runs_it_once(setup: RunnerSetup) -> None:
    request = setup.started("print('here')")
    setup.runner.start(request)
    eventually(lambda: setup.runner.status(request).has_ended, "it has ended", 30)
    assert setup.runner.log(request) == "here\n"


def test_files_in_the_current_directory_are_not_imported(
    setup: RunnerSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugin.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    runner = LocalJobRunner({**os.environ, "OUTFOX_HOME": str(tmp_path)}, lambda request: setup.log)
    request = JobRequest("training", "nosuch")
    runner.start(request)
    eventually(lambda: runner.status(request).has_ended, "it has ended", 60)
    assert runner.log(request).startswith("outfox: ")
