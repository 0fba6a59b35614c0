"""Trainings and evaluations on a real Ray cluster: the results of this machine, once, whatever is killed.

The last test stops the cluster.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plugin.cli.doctor_checks import cluster_findings
from plugin.errors import ClusterUnreachable
from plugin.jobs.process import PROGRAM
from plugin.jobs.ray import ClusterSettings, RayJobRunner
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.database.store import Store, open_store
from round_manager.jobs import JobOutcome, JobRequest
from round_manager.learning.training_data import PendingTraining, pending_training
from round_manager.learning.training_jobs import list_jobs
from round_manager.models import ModelVersion, TrainingJob, TrainingState
from round_manager.services.context import ServiceContext
from round_manager.services.training_supervisor import (
    TrainingEnd,
    TrainingSupervisor,
    cancel_training,
    training_request,
)
from round_manager.tasks.tasks import find_task
from tests.campaign.training import ACTOR, TASK
from tests.conftest import Outfox
from tests.fakes.foreign_models import save_huggingface
from tests.fakes.registry import eventually
from tests.integration.outfox.conftest import archives  # noqa: F401 - pytest finds fixtures by their names here
from tests.integration.round_manager.learning.trained_home import Home, home_of_its_own, home_trained_once  # noqa: F401 - fixtures
from tests.ray_cluster import RayCluster, free_ports
from tests.unit.ml_backend.conftest import tiny_base  # noqa: F401 - pytest finds fixtures by their names here

pytestmark = pytest.mark.sqlite("what is tried here is processes")
SECONDS = 180.0
PAUSE = 0.1
MANAGE = ("manage", "--mode", "head", "--skip", "freeze", "--skip", "open")
EVERY = ("--every", "0.5")


@dataclass
class Installation:
    """An installation whose jobs run on the cluster; the cluster's machines have a settings file and a home."""

    home: Home
    environment: Mapping[str, str]
    store: Store

    @property
    def app(self) -> Application:
        return Application(load_settings(self.environment))

    @property
    def runner(self) -> RayJobRunner:
        return self.app.ray_runner()

    def supervisor(self, runner: RayJobRunner) -> TrainingSupervisor:
        return TrainingSupervisor(self.services, ACTOR, runner, "head")

    @property
    def services(self) -> ServiceContext:
        return ServiceContext(self.store, self.app.clock)

    def jobs(self) -> list[TrainingJob]:
        with self.store.read() as session:
            return list_jobs(session, find_task(session, TASK))[::-1]

    def states(self) -> list[TrainingState]:
        return [job.state for job in self.jobs()]

    def version(self, job: TrainingJob) -> str:
        with self.store.read() as session:
            found = session.get(ModelVersion, job.model_version_id)
            assert found is not None
            return str(found.name)

    def pending(self) -> PendingTraining | None:
        with self.store.read() as session:
            return pending_training(session, find_task(session, TASK))

    def until(self, *states: TrainingState) -> None:
        try:
            eventually(lambda: self.states() == list(states), f"the trainings are {states}", SECONDS, PAUSE)
        except AssertionError as error:
            logs = [path.read_text() for path in self.home.folder.glob("*.log")]
            raise AssertionError(
                f"{error}; they are {[(one.state, one.reason) for one in self.jobs()]}: {logs}"
            ) from None


@pytest.fixture
def installation(home: Home, cluster: RayCluster, tmp_path: Path) -> Iterator[Installation]:
    """The manager's machine and those of the cluster have different homes; registry and archives are shared."""
    theirs = tmp_path / "cluster.toml"
    theirs.write_text(f'home = "{tmp_path / "node"}"\ndatabase_url = "{home.database}"\n', encoding="utf-8")
    environment = {
        "OUTFOX_HOME": str(home.folder),
        "OUTFOX_DATABASE_URL": home.database,
        "OUTFOX_REGISTRY": str(home.folder / "models"),
        "OUTFOX_ARCHIVES": str(tmp_path / "archives"),
        "OUTFOX_JOBS_RUNNER": "ray",
        "OUTFOX_JOBS_ADDRESS": cluster.address,
        "OUTFOX_JOBS_CONFIG": str(theirs),
    }
    with open_store(home.database) as store:
        yield Installation(home, environment, store)


def start_manager(installation: Installation, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-c", PROGRAM, *MANAGE, *options]
    with (installation.home.folder / "manager.log").open("ab") as log:
        return subprocess.Popen(command, env={**os.environ, **installation.environment}, stdout=log, stderr=log)


@pytest.fixture
def trained_here(home: Home, tmp_path: Path) -> Iterator[Callable[[], dict[str, Any]]]:
    """Train in a copy of the home in the meantime, with more threads; return what the command says."""
    folder = Path(shutil.copytree(home.folder, tmp_path / "alone"))
    environment = {**os.environ, "OUTFOX_HOME": str(folder), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-P", "-c", PROGRAM, "model", "retrain", TASK, "--mode", "head", "--json"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def result() -> dict[str, Any]:
        out, error = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, error.decode()
        return dict(json.loads(out))

    yield result
    process.kill()
    process.wait()


def test_a_training_on_the_cluster_makes_the_version_of_this_machine_once_though_its_manager_is_killed(
    installation: Installation, outfox: Outfox, trained_here: Callable[[], dict[str, Any]]
) -> None:
    runner, managers = installation.runner, [start_manager(installation, *EVERY)]
    request = training_request(installation.services, runner, TASK)
    try:
        submitted = "the training was submitted"
        eventually(lambda: runner.status(request).outcome is not JobOutcome.UNKNOWN, submitted, SECONDS, PAUSE)
        # Before the job has recorded anything, and while it trains.
        kill(managers[0])
        managers.append(start_manager(installation, *EVERY))
        installation.until(TrainingState.RUNNING)
        kill(managers[1])
        # For cron: it finds the training, and does not wait.
        managers.append(start_manager(installation, "--once"))
        assert managers[2].wait(SECONDS) == 0
    finally:
        for manager in managers:
            kill(manager)
    installation.until(TrainingState.ROTATED)
    eventually(lambda: "serves now" in runner.log(request), "the cluster has the log", SECONDS, PAUSE)
    (job,) = installation.jobs()
    assert (installation.pending(), job.token) == (None, request.token)
    alone = trained_here()
    assert installation.home.pinned(outfox) == [installation.version(job)] == [alone["version"]]
    assert job.figures is not None
    assert job.figures["comparisons"] == alone["figures"]


def log_file(installation: Installation) -> Callable[[JobRequest], Path]:
    return lambda request: installation.home.folder / f"{request.kind}.log"


def kill(manager: subprocess.Popen[bytes]) -> None:
    manager.kill()
    manager.wait()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_huggingface(tmp_path_factory.mktemp("models") / "tiny")


def test_an_evaluation_on_the_cluster_gives_the_figures_of_this_machine(
    installation: Installation,
    archives: Path,  # noqa: F811
    foreign: Path,
    outfox: Outfox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for folder in ("there", "here"):
        shutil.copytree(archives / TASK, tmp_path / folder / TASK)
    own = tmp_path / "own.csv"
    rows = [("text", "label"), ("A lovely day.", "positive"), ("An awful day.", "negative"), ("A day.", "neutral")]
    with own.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    base = installation.home.base
    command = ["evaluate", TASK, base, f"theirs={foreign}", "--on", f"seed,rounds,{own}", "--json"]

    monkeypatch.setenv("OUTFOX_ARCHIVES", str(tmp_path / "here"))
    local = outfox(*command)
    assert local.code == 0, local.err
    for name, value in {**installation.environment, "OUTFOX_ARCHIVES": str(tmp_path / "there")}.items():
        monkeypatch.setenv(name, value)
    ray = outfox(*command)
    assert ray.code == 0, ray.err
    assert json.loads(ray.out)["results"] == json.loads(local.out)["results"]
    # The results are stored next to the archives, and nothing is sent again.
    monkeypatch.setenv("OUTFOX_JOBS_ADDRESS", "http://127.0.0.1:9")
    again = outfox(*command)
    assert (again.code, json.loads(again.out)["results"]) == (0, json.loads(local.out)["results"])


def test_doctor_reports_the_cluster(installation: Installation) -> None:
    found = {one.what: one for one in cluster_findings(installation.app)}
    assert (found["cluster"].state, "2 CPU" in found["cluster"].detail) == ("ok", True)
    assert found["database for the cluster"].state == "warning"
    nothing = {**installation.environment, "OUTFOX_JOBS_ADDRESS": f"http://127.0.0.1:{free_ports(1)[0]}"}
    assert [one.state for one in cluster_findings(Application(load_settings(nothing)))] == ["missing"]


def test_a_training_that_waits_for_its_turn_can_be_cancelled(installation: Installation) -> None:
    runner, services = installation.runner, installation.services
    request = training_request(services, runner, TASK, "head")
    runner.start(request)
    cancelled = cancel_training(services, ACTOR, TASK, runner)
    assert (cancelled.state, installation.pending()) == (TrainingState.CANCELLED, None)
    eventually(lambda: runner.status(request).has_ended, "it has ended on the cluster", SECONDS, PAUSE)
    assert installation.states() == [TrainingState.CANCELLED]


def test_a_cluster_that_stops_in_the_middle_fails_the_training_and_a_retry_may_help(
    installation: Installation, cluster: RayCluster
) -> None:
    app = installation.app
    runner = RayJobRunner(
        app.ray_api(),
        ClusterSettings("lost", installation.environment["OUTFOX_JOBS_CONFIG"]),
        log_file(installation),
        patience=0.5,
    )
    supervisor = installation.supervisor(runner)
    supervisor.start(TASK)
    installation.until(TrainingState.RUNNING)
    assert supervisor.ended(TASK) is None
    cluster.stop()
    ends: list[TrainingEnd] = []

    def failed() -> bool:
        ends.extend(filter(None, [supervisor.ended(TASK)]))
        return any(one.failed for one in ends)

    eventually(failed, "the training failed", SECONDS, PAUSE)
    (job,) = installation.jobs()
    assert (job.state, job.retry, installation.pending()) == (TrainingState.FAILED, True, PendingTraining(1, 0, None))
    with pytest.raises(ClusterUnreachable):
        supervisor.start(TASK)
    assert len(installation.jobs()) == 1
