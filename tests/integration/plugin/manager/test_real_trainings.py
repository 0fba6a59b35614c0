"""A real manager and its real training, when one of them is stopped or killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from plugin.jobs.process import PROGRAM
from round_manager.database.store import Store, open_store
from round_manager.learning.training_data import PendingTraining, pending_training
from round_manager.learning.training_jobs import list_jobs
from round_manager.models import TrainingJob, TrainingState
from round_manager.tasks.tasks import find_task
from tests.campaign.training import TASK
from tests.conftest import Outfox
from tests.fakes.registry import eventually
from tests.integration.round_manager.learning.trained_home import Home, home_of_its_own, home_trained_once  # noqa: F401 - fixtures
from tests.unit.ml_backend.conftest import tiny_base  # noqa: F401 - pytest finds fixtures by their names here

pytestmark = pytest.mark.sqlite("what is tried here is processes")
# For one training: it imports PyTorch, and measures two models in separate processes.
SECONDS = 120.0
# Between two looks: reading the database all the time would take longer than the training.
PAUSE = 0.1


@dataclass
class ManagedHome:
    """A home whose round waits for a training, and the managers that were started in it."""

    home: Home
    store: Store
    managers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.home.folder / "manager.log"

    def manage(self) -> subprocess.Popen[bytes]:
        """Start a manager whose only work is the training."""
        steps = ["--skip", "freeze", "--skip", "open"]
        command = [sys.executable, "-P", "-c", PROGRAM, "manage", "--every", "0.5", "--mode", "head", *steps]
        environment = {**os.environ, "OUTFOX_HOME": str(self.home.folder)}
        with self.log.open("ab") as log:
            self.managers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        return self.managers[-1]

    def jobs(self) -> list[TrainingJob]:
        """Return the trainings, oldest first."""
        with self.store.read() as session:
            return list_jobs(session, find_task(session, TASK))[::-1]

    def states(self) -> list[TrainingState]:
        return [job.state for job in self.jobs()]

    def awaited(self) -> PendingTraining | None:
        with self.store.read() as session:
            return pending_training(session, find_task(session, TASK))

    def until(self, *states: TrainingState) -> None:
        """Wait until the trainings have these states; on failure, show the manager's log."""
        try:
            eventually(lambda: self.states() == list(states), f"the trainings are {states}", SECONDS, PAUSE)
        except AssertionError as error:
            raise AssertionError(f"{error}; they are {self.states()}: {self.log.read_text()}") from error

    def until_logged(self, words: str, times: int = 1) -> None:
        expectation = f"managers say {words!r} ({times})"
        eventually(lambda: self.log.read_text().count(words) >= times, expectation, SECONDS, PAUSE)

    def close(self) -> None:
        for manager in self.managers:
            manager.kill()
            manager.wait()
        for job in self.jobs():
            if job.state is TrainingState.RUNNING:
                with suppress(ProcessLookupError):
                    os.kill(job.pid, signal.SIGKILL)


@pytest.fixture
def managed(home: Home) -> Iterator[ManagedHome]:
    with open_store(home.database) as store:
        made = ManagedHome(home, store)
        try:
            yield made
        finally:
            made.close()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_training_ends_with_its_manager_and_waits_for_the_next_one(outfox: Outfox, managed: ManagedHome) -> None:
    manager = managed.manage()
    managed.until(TrainingState.RUNNING)
    manager.send_signal(signal.SIGTERM)
    assert manager.wait(60) == 0
    managed.until(TrainingState.STOPPED)
    assert is_gone(managed.jobs()[0].pid)
    assert (managed.awaited(), managed.home.pinned(outfox)) == (PendingTraining(1, 0, None), [managed.home.base])
    would = outfox("manage", "--dry-run", "--json").out
    assert "train the next model on the rounds up to 1" in would


def test_a_training_outlives_a_manager_that_is_killed_and_the_next_one_waits_for_its_end(
    outfox: Outfox, managed: ManagedHome
) -> None:
    manager = managed.manage()
    managed.until(TrainingState.RUNNING)
    manager.kill()
    manager.wait()
    managed.manage()
    managed.until(TrainingState.ROTATED)
    assert managed.awaited() is None
    assert managed.home.pinned(outfox) != [managed.home.base]
    # The training needs no manager, and may end before this one has begun.
    managed.until_logged("(Ctrl-C stops it)", times=2)
    second = managed.managers[-1]
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert managed.states() == [TrainingState.ROTATED], "one training was enough"
