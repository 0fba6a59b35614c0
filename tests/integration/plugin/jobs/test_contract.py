"""The contract of every JobRunner, on this machine and on a Ray cluster: how jobs start, end, stop and print."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from plugin.jobs.local import LocalJobRunner
from plugin.jobs.process import BUSY_CODE, RETRY_CODE
from plugin.jobs.ray import ClusterSettings, RayJobRunner
from plugin.jobs.ray_api import RayApi
from round_manager.jobs import JobOutcome, JobRequest, JobStatus
from tests.fakes.registry import eventually
from tests.ray_cluster import RayCluster

SECONDS = 120.0
PAUSE = 0.1
COMMANDS = {
    "succeeds": "echo it works",
    "finds another": f"exit {BUSY_CODE}",
    "retry": f"echo 'outfox: the registry does not respond'; exit {RETRY_CODE}",
    "fails": "echo 'outfox: an earlier error'; echo 'outfox: the pack is missing' >&2; exit 2",
    "says nothing": "exit 1",
    "is killed": "kill -KILL $$",
    "endless": "echo here; exec sleep 600",
    "stubborn": "trap '' TERM; echo here; while true; do sleep 0.1; done",
}

Runner = LocalJobRunner | RayJobRunner
MakeRunner = Callable[[], Runner]


@dataclass(frozen=True)
class Jobs:
    """One job for each command, all started; a runner that remembers them and what makes another one."""

    runner: Runner
    make_runner: MakeRunner
    requests: Mapping[str, JobRequest]

    def status(self, name: str) -> JobStatus:
        return self.runner.status(self.requests[name])

    def ended(self, name: str) -> JobStatus:
        eventually(lambda: self.status(name).has_ended, f"the job that {name} has ended", SECONDS, PAUSE)
        return self.status(name)

    def running(self, name: str) -> JobRequest:
        request = self.requests[name]
        eventually(lambda: "here" in self.runner.log(request).splitlines(), f"{name} runs", SECONDS, PAUSE)
        return request


def command(request: JobRequest) -> list[str]:
    return ["sh", "-c", COMMANDS[request.task]]


@pytest.fixture(scope="module", params=["local", "ray"])
def jobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    folder = tmp_path_factory.mktemp("jobs")

    def log_file(job: JobRequest) -> Path:
        return folder / f"{job.task}.log"

    def make_runner() -> Runner:
        if request.param == "local":
            return LocalJobRunner(os.environ, log_file, command)
        cluster: RayCluster = request.getfixturevalue("cluster")
        return RayJobRunner(
            RayApi(cluster.address),
            ClusterSettings("contract", environment={"RAY_JOB_STOP_WAIT_TIME_S": "1"}),
            log_file,
            command,
        )

    requests = {name: JobRequest("test", name) for name in COMMANDS}
    runner = make_runner()
    for one in requests.values():
        runner.start(one)
    yield Jobs(runner, make_runner, requests)
    for one in requests.values():
        runner.stop(one, seconds=0.2)


def test_a_job_that_succeeds_leaves_its_log(jobs: Jobs) -> None:
    found = jobs.ended("succeeds")
    assert (found.outcome, found.reason) == (JobOutcome.SUCCEEDED, "")
    assert "it works" in jobs.runner.log(jobs.requests["succeeds"]).splitlines()


def test_a_job_that_was_not_started_is_unknown(jobs: Jobs) -> None:
    unknown = JobRequest("test", "succeeds")
    assert (jobs.runner.status(unknown).outcome, jobs.runner.status(unknown).has_ended) == (JobOutcome.UNKNOWN, False)
    jobs.runner.stop(unknown)


@pytest.mark.parametrize(
    ("name", "outcome", "retry", "reason"),
    [
        ("finds another", JobOutcome.BUSY, False, f"exit code {BUSY_CODE}"),
        ("retry", JobOutcome.FAILED, True, "the registry does not respond"),
        ("fails", JobOutcome.FAILED, False, "the pack is missing"),
        ("says nothing", JobOutcome.FAILED, False, "exit code 1"),
    ],
)
def test_the_exit_code_and_the_last_error_say_how_a_job_ended(
    jobs: Jobs, name: str, outcome: JobOutcome, retry: bool, reason: str
) -> None:
    found = jobs.ended(name)
    assert (found.outcome, found.retry, found.reason) == (outcome, retry, reason)


def test_the_signal_that_killed_a_job_is_its_reason(jobs: Jobs) -> None:
    found = jobs.ended("is killed")
    assert (found.outcome, "SIGKILL" in found.reason) == (JobOutcome.FAILED, True)


def test_starting_a_job_again_runs_it_once(jobs: Jobs) -> None:
    jobs.ended("succeeds")
    jobs.runner.start(jobs.requests["succeeds"])
    assert jobs.ended("succeeds").outcome is JobOutcome.SUCCEEDED
    assert jobs.runner.log(jobs.requests["succeeds"]).splitlines().count("it works") == 1


def test_only_a_durable_job_is_known_to_other_runners(jobs: Jobs) -> None:
    request = jobs.running("endless")
    other = jobs.make_runner()
    assert other.durable is jobs.runner.durable
    assert other.status(request).outcome is (JobOutcome.RUNNING if other.durable else JobOutcome.UNKNOWN)


def test_a_job_stops(jobs: Jobs) -> None:
    request = jobs.running("endless")
    assert jobs.status("endless").outcome is JobOutcome.RUNNING
    jobs.runner.stop(request)
    assert jobs.ended("endless").outcome is JobOutcome.STOPPED


def test_a_job_that_ignores_the_request_is_killed(jobs: Jobs) -> None:
    request = jobs.running("stubborn")
    jobs.runner.stop(request, seconds=0.2)
    assert jobs.ended("stubborn").outcome is JobOutcome.STOPPED
