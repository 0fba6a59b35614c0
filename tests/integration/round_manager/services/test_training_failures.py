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
from tests.campaign.training import TASK, TrainingCampaign
from tests.fakes.clock import SettableClock
from tests.fakes.registry import eventually
from tests.fakes.trainer import FakeTrainer


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
    trainable: TrainingCampaign, error: BaseException, state: TrainingState, told: str
) -> None:
    before = trainable.pinned()
    with pytest.raises(type(error)):
        trainable.retrain(FakeTrainer(trainable.models, before_step=failing(error)))
    job = trainable.last_job()
    assert job.state is state
    assert told in str(job.reason)
    trainable.check_unchanged(before)
    assert trainable.evaluations() == []
    assert trainable.retrain().rotated, "and the next one goes through"


def test_a_cancel_during_the_training_stops_it(trainable: TrainingCampaign) -> None:
    before = trainable.pinned()

    def ask(step: int) -> None:
        if step == 1:
            with trainable.store.write() as session:
                job = request_cancel(session, trainable.task_in(session), actor="ada@desk", now=trainable.clock.now())
            eventually(lambda: trainable.last_job().beat_at > job.beat_at, "the wish was heard")

    trainer = FakeTrainer(trainable.models, before_step=ask)
    with pytest.raises(TrainingCancelled):
        trainable.retrain(trainer, clock=Ticking())
    assert trainer.trained == []
    assert (trainable.last_job().state, trainable.last_job().cancel_by) == (TrainingState.CANCELLED, "ada@desk")
    trainable.check_unchanged(before)


def test_a_cancel_after_the_training_keeps_the_version_out(trainable: TrainingCampaign) -> None:
    before = trainable.pinned()

    def measure(directory: Path) -> int:
        with trainable.store.write() as session:
            request_cancel(session, trainable.task_in(session), actor="ada@desk", now=trainable.clock.now())
        return 1

    with pytest.raises(TrainingCancelled):
        trainable.retrain(measure_memory=measure, heartbeat_seconds=60)
    trainable.check_unchanged(before)


def test_a_process_recorded_as_dead_changes_nothing(trainable: TrainingCampaign) -> None:
    before = trainable.pinned()

    def take_for_dead(step: int) -> None:
        with trainable.store.write() as session:
            fail_dead_job(session, trainable.task_in(session), "it was not heard of", now=trainable.clock.now())

    with pytest.raises(TrainingEnded):
        trainable.retrain(FakeTrainer(trainable.models, before_step=take_for_dead), heartbeat_seconds=60)
    assert trainable.last_job().reason == "it was not heard of"
    trainable.check_unchanged(before)


def test_a_new_version_that_does_not_load_is_not_rotated_in(trainable: TrainingCampaign) -> None:
    before = trainable.pinned()
    with pytest.raises(ModelError, match="does not load"):
        trainable.retrain(FakeTrainer(trainable.models, fault="broken"))
    assert trainable.last_job().state is TrainingState.FAILED
    trainable.check_unchanged(before)


def test_an_unconfirmed_rotation_keeps_the_old_version_and_can_be_retried(trainable: TrainingCampaign) -> None:
    before = trainable.pinned()
    silent = Heartbeat(
        id="silent", host="elsewhere", pid=1, started="1", lease=1000, tasks={TASK: FollowedPins(generation=0)}
    )
    trainable.registry.send_heartbeat(silent)
    with pytest.raises(RotationNotConfirmed):
        trainable.retrain(rotation_timeout=0.1)
    trainable.check_unchanged(before)
    assert trainable.last_job().state is TrainingState.FAILED
    trainable.registry.remove_heartbeat("silent")
    again = FakeTrainer(trainable.models)
    assert trainable.retrain(again).rotated
    assert again.trained == []


def test_without_a_closed_round_no_training_starts(any_training: TrainingCampaign) -> None:
    any_training.pin("positive")
    with pytest.raises(RoundNotClosed):
        any_training.retrain()
    with any_training.store.read() as session:
        assert session.scalars(select(TrainingJob)).all() == []
