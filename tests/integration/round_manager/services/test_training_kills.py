"""A retraining that is killed with SIGKILL at every step in turn reaches the same end."""

import os
import signal
from collections.abc import Callable
from typing import Any

from sqlalchemy import event, func, select

from ml_backend.registry.pins import Pins
from round_manager.database.store import Store, open_store
from round_manager.models import AuditEntry, Evaluation, RoundStatus, TrainingJob, TrainingState
from round_manager.services.context import ServiceContext
from round_manager.services.training import retrain as retrain_task
from tests.campaign.training import ACTOR, TrainingCampaign, first_round_rows
from tests.fakes.registry import QuickRegistry
from tests.fakes.trainer import FakeTrainer
from tests.integration.round_manager.learning.test_training_jobs import url_of

MOST_RUNS = 200


class Fuse:
    """Kills this process with SIGKILL at the n-th step."""

    def __init__(self, last: int) -> None:
        self._left = last

    def burn(self, *_: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


class BurningRegistry(QuickRegistry):
    """A registry whose process may be killed between any two changes."""

    fuse: Fuse

    def set_pins(self, *arguments: Any, **options: Any) -> Pins:
        self.fuse.burn()
        pins = super().set_pins(*arguments, **options)
        self.fuse.burn()
        return pins


def in_a_process_of_its_own(run: Callable[[], None]) -> int:
    """Return the exit code: 0, or the negative number of the signal that killed the process."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def retrain(training: TrainingCampaign, steps: int) -> None:
    fuse, registry = Fuse(steps), BurningRegistry(training.models)
    registry.fuse = fuse
    with open_store(url_of(training.store)) as store:
        # Before each transaction, which is after the one before it, and before each commit.
        for moment in ("begin", "commit"):
            event.listen(store.engine, moment, fuse.burn)
        trainer = FakeTrainer(training.models, before_step=fuse.burn)
        ports = training.ports(trainer, heartbeat_seconds=60, registry=registry)
        retrain_task(ServiceContext(store, training.clock), ACTOR, training.pack, ports, mode="head")


def count(store: Store, *query: Any) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(query[0]).where(*query[1:])) or 0


def test_a_training_killed_at_each_step_reaches_the_same_end(training: TrainingCampaign) -> None:
    (before,) = training.pin("positive")
    training.add_closed_round(first_round_rows())
    kills = 0
    for steps in range(1, MOST_RUNS):
        ended = in_a_process_of_its_own(lambda steps=steps: retrain(training, steps))  # type: ignore[misc]
        assert len(training.pinned()) == 1
        assert training.find_round(1).status is RoundStatus.CLOSED
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        kills += 1
    assert kills > 20
    (after,) = training.pinned()
    assert after != before
    assert count(training.store, Evaluation) == 4, "two versions on two sets of rows, each once"
    assert count(training.store, AuditEntry, AuditEntry.action == "rotated") == 1
    assert count(training.store, TrainingJob, TrainingJob.state == TrainingState.ROTATED) == 1
    assert count(training.store, TrainingJob, TrainingJob.state == TrainingState.RUNNING) == 0
    versions = [change.versions for change in training.registry.pin_set("sentiment").history]
    assert set(versions) == {(before,), (after,)}
