"""Retrainings that end early: the reason is recorded, and the serving model and the rounds are unchanged."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from ml_backend.errors import BackendError, ModelError, RotationNotConfirmed, TrainingCancelled
from ml_backend.registry.heartbeats import FollowedPins, Heartbeat
from round_manager.errors import RoundNotClosed, TrainingEnded
from round_manager.learning.training_jobs import fail_dead_job, request_cancel
from round_manager.models import TrainingJob, TrainingState
from tests.fakes.clock import SettableClock
from tests.fakes.registry import eventually
from tests.fakes.trainer import FakeTrainer
from tests.integration.round_manager.learning.school import TASK, School, evaluations, last_job, retrain, unchanged


class Ticking(SettableClock):
    """A clock that advances whenever it is read."""

    def now(self) -> datetime:
        return self.advance(timedelta(milliseconds=1))


def failing(error: BaseException) -> Callable[[int], None]:
    def fail(step: int) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "state", "told"),
    [
        (MemoryError("cannot allocate"), TrainingState.FAILED, "cannot allocate"),
        (BackendError("no row has the label"), TrainingState.FAILED, "no row has the label"),
        (KeyboardInterrupt(), TrainingState.STOPPED, "stopped"),
        (TrainingCancelled("x"), TrainingState.CANCELLED, "cancelled"),
    ],
)
def test_a_training_that_ends_early_changes_nothing_and_records_why(
    taught: School, error: BaseException, state: TrainingState, told: str
) -> None:
    before = taught.pinned()
    with pytest.raises(type(error)):
        retrain(taught, FakeTrainer(taught.models, before_step=failing(error)))
    job = last_job(taught)
    assert job.state is state
    assert told in str(job.reason)
    unchanged(taught, before)
    assert evaluations(taught) == []
    assert retrain(taught).rotated, "and the next one goes through"


def test_a_cancel_during_the_training_stops_it(taught: School) -> None:
    before = taught.pinned()

    def ask(step: int) -> None:
        if step == 1:
            with taught.store.write() as session:
                job = request_cancel(session, taught.task(session), actor="ada@desk", now=taught.clock.now())
            eventually(lambda: last_job(taught).beat_at > job.beat_at, "the wish was heard")

    trainer = FakeTrainer(taught.models, before_step=ask)
    with pytest.raises(TrainingCancelled):
        retrain(taught, trainer, clock=Ticking())
    assert trainer.trained == []
    assert (last_job(taught).state, last_job(taught).cancel_by) == (TrainingState.CANCELLED, "ada@desk")
    unchanged(taught, before)


def test_a_cancel_after_the_training_keeps_the_version_out(taught: School) -> None:
    before = taught.pinned()

    def measure(directory: Path) -> int:
        with taught.store.write() as session:
            request_cancel(session, taught.task(session), actor="ada@desk", now=taught.clock.now())
        return 1

    with pytest.raises(TrainingCancelled):
        retrain(taught, measure_memory=measure, heartbeat_seconds=60)
    unchanged(taught, before)


def test_a_process_recorded_as_dead_changes_nothing(taught: School) -> None:
    before = taught.pinned()

    def take_for_dead(step: int) -> None:
        with taught.store.write() as session:
            fail_dead_job(session, taught.task(session), "it was not heard of", now=taught.clock.now())

    with pytest.raises(TrainingEnded):
        retrain(taught, FakeTrainer(taught.models, before_step=take_for_dead), heartbeat_seconds=60)
    assert last_job(taught).reason == "it was not heard of"
    unchanged(taught, before)


def test_a_new_version_that_does_not_load_is_not_rotated_in(taught: School) -> None:
    before = taught.pinned()
    with pytest.raises(ModelError, match="does not load"):
        retrain(taught, FakeTrainer(taught.models, fault="broken"))
    assert last_job(taught).state is TrainingState.FAILED
    unchanged(taught, before)


def test_an_unconfirmed_rotation_keeps_the_old_version_and_can_be_retried(taught: School) -> None:
    before = taught.pinned()
    silent = Heartbeat(
        id="silent", host="elsewhere", pid=1, started="1", lease=1000, tasks={TASK: FollowedPins(generation=0)}
    )
    taught.registry.send_heartbeat(silent)
    with pytest.raises(RotationNotConfirmed):
        retrain(taught, rotation_timeout=0.1)
    unchanged(taught, before)
    assert last_job(taught).state is TrainingState.FAILED
    taught.registry.remove_heartbeat("silent")
    again = FakeTrainer(taught.models)
    assert retrain(taught, again).rotated
    assert again.trained == []


def test_without_a_closed_round_no_training_starts(any_school: School) -> None:
    any_school.pin("positive")
    with pytest.raises(RoundNotClosed):
        retrain(any_school)
    with any_school.store.read() as session:
        assert session.scalars(select(TrainingJob)).all() == []
