"""The local JobRunner: how a process ends, and what is recorded of its training."""

import os
import signal
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from plugin.jobs import BUSY_CODE, LocalJobRunner
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
class Stage:
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
def stage(trainable: TrainingCampaign, tmp_path: Path) -> Stage:  # noqa: F811
    return Stage(trainable, tmp_path / "training.log")


def test_a_job_that_is_stopped_before_its_training_started_has_not_failed(stage: Stage) -> None:
    for _ in range(6):
        request = stage.started(ENDLESS)
        assert stage.runner.status(request).outcome is JobOutcome.RUNNING
        stage.runner.stop(request)
        assert stage.record_end(request).outcome is JobOutcome.STOPPED
    assert (stage.jobs(), stage.pending()) == ([], PendingTraining(1, 0, None))


@pytest.mark.parametrize("program", [ENDLESS, STUBBORN], ids=["willing", "stubborn"])
def test_a_training_that_is_stopped_is_recorded_as_stopped_even_if_it_must_be_killed(
    stage: Stage, program: str
) -> None:
    request = stage.started(program)
    stage.wait_for_output()
    stage.start_job(request)
    stage.runner.stop(request, seconds=0.2)
    stage.record_end(request)
    ((state, _),) = stage.jobs()
    assert (state, stage.pending()) == (TrainingState.STOPPED, PendingTraining(1, 0, None))


def test_a_job_that_another_process_terminates_has_not_failed_either(stage: Stage) -> None:
    request = stage.started(ENDLESS)
    stage.wait_for_output()
    os.kill(stage.runner.status(request).pid, signal.SIGTERM)
    eventually(lambda: stage.runner.status(request).has_ended, "it has ended")
    assert stage.record_end(request).outcome is JobOutcome.STOPPED
    assert stage.jobs() == []


def test_a_job_that_was_killed_has_failed(stage: Stage) -> None:
    assert stage.ended("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").outcome is JobOutcome.FAILED
    ((state, reason),) = stage.jobs()
    assert (state, "SIGKILL" in reason, stage.pending() is not None) == (TrainingState.FAILED, True, True)


def test_failures_that_a_retry_may_resolve_are_recorded_but_not_counted(stage: Stage) -> None:
    for _ in range(6):
        assert stage.ended("print('outfox: the registry does not respond'); raise SystemExit(3)").retry
    assert set(stage.jobs()) == {(TrainingState.FAILED, "the registry does not respond")}
    assert stage.pending() == PendingTraining(1, 0, None)
    assert not stage.ended("print('outfox: the pack is missing'); raise SystemExit(2)").retry
    assert stage.pending() == PendingTraining(1, 1, "the pack is missing")


def test_a_job_that_found_another_process_training_gets_no_record(stage: Stage) -> None:
    assert stage.ended(f"raise SystemExit({BUSY_CODE})").outcome is JobOutcome.BUSY
    assert stage.jobs() == []


def test_only_the_output_of_the_job_itself_is_its_reason(stage: Stage) -> None:
    stage.log.write_text("outfox: m0123 was not rotated in\n")
    stage.ended("raise ImportError('libfoo.so.1: cannot open')")
    assert stage.jobs() == [(TrainingState.FAILED, "exit code 1")]
    stage.ended("print('outfox: the pack is missing'); raise SystemExit(2)")
    assert stage.jobs()[0] == (TrainingState.FAILED, "the pack is missing")


def test_starting_a_job_twice_runs_it_once(stage: Stage) -> None:
    request = stage.started("print('here')")
    stage.runner.start(request)
    eventually(lambda: stage.runner.status(request).has_ended, "it has ended", 30)
    assert stage.runner.log(request) == "here\n"


def test_files_in_the_current_directory_are_not_imported(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugin.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    runner = LocalJobRunner({**os.environ, "OUTFOX_HOME": str(tmp_path)}, lambda request: stage.log)
    request = JobRequest("training", "nosuch")
    runner.start(request)
    eventually(lambda: runner.status(request).has_ended, "it has ended", 60)
    assert runner.log(request).startswith("outfox: ")
