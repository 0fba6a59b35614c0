"""An owner's cancel takes effect if the process runs, lost its lock or died, until the version is pinned."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from common.errors import Hint
from ml_backend.errors import TrainingCancelled
from ml_backend.registry.pins import Pins
from round_manager.database.store import Store, open_store
from round_manager.errors import TrainingTooLate
from round_manager.learning.training_data import pending_training
from round_manager.learning.training_jobs import HEARTBEAT_TIMEOUT, fail_dead_job, finish_job, start_job
from round_manager.models import TrainingState
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.training_supervisor import cancel_training, end_cancelled_training
from tests.campaign.training import (
    JOB_OWNER,
    TASK,
    TrainingCampaign,
    first_round_rows,
    small_pack,
    start_training,
    with_closed_round,
)
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.registry import QuickRegistry, load_fixed
from tests.fakes.trainer import FakeTrainer
from tests.integration.databases import Databases
from tests.integration.round_manager.learning.test_training_jobs import url_of

DROP_ALL = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


def cancel(training: TrainingCampaign) -> None:
    """Cancel as an owner does, from another process."""
    with open_store(url_of(training.store)) as other:
        cancel_training(ServiceContext(other, training.clock), Actor("ada@desk"), TASK)


def is_awaited(training: TrainingCampaign) -> bool:
    with training.store.read() as session:
        return pending_training(session, training.task_in(session)) is not None


def drop_connections(store: Store) -> None:
    """End every other connection, as a restart of PostgreSQL does; the training lock is released with them."""
    with open_store(url_of(store)) as other, other.write() as session:
        session.execute(text(f"{DROP_ALL} AND datname = current_database()"))


def test_a_cancel_after_the_lock_was_lost_reaches_the_process(postgresql_databases: Databases, tmp_path: Path) -> None:
    with open_store(postgresql_databases.migrated()) as store:
        training = with_closed_round(start_training(store, small_pack(tmp_path / "packs"), tmp_path / "models"))
        before = training.pinned()

        def lose(step: int) -> None:
            if step == 1:
                drop_connections(store)
                cancel(training)

        with pytest.raises(TrainingCancelled):
            training.retrain(FakeTrainer(training.models, before_step=lose))
        assert (training.last_job().state, training.last_job().cancel_by) == (TrainingState.CANCELLED, "ada@desk")
        assert not is_awaited(training)
        training.check_unchanged(before)


@pytest.mark.parametrize("state", [TrainingState.FAILED, TrainingState.STOPPED])
def test_a_training_that_ends_after_a_cancel_is_recorded_as_cancelled(
    any_training: TrainingCampaign, state: TrainingState
) -> None:
    last = any_training.add_closed_round(first_round_rows())
    with any_training.store.write() as session:
        job = start_job(session, any_training.task_in(session), last, "head", JOB_OWNER, now=NOON)
    cancel(any_training)
    with any_training.store.write() as session:
        finish_job(session, job.id, state, "no memory", now=NOON)
    ended = any_training.last_job()
    assert (ended.state, ended.reason) == (TrainingState.CANCELLED, "cancelled by ada@desk; no memory")
    assert not is_awaited(any_training)


def test_a_cancelled_training_that_died_ends_without_a_heartbeat(any_training: TrainingCampaign) -> None:
    last = any_training.add_closed_round(first_round_rows())
    clock = SettableClock()
    context = ServiceContext(any_training.store, clock)
    with any_training.store.write() as session:
        start_job(session, any_training.task_in(session), last, "head", JOB_OWNER, now=NOON)
    assert end_cancelled_training(context, TASK) is None
    asked = cancel_training(context, Actor("ada@desk"), TASK)
    assert asked.state is TrainingState.RUNNING, "its process may be alive"
    assert end_cancelled_training(context, TASK) is None
    clock.advance(HEARTBEAT_TIMEOUT)
    ended = end_cancelled_training(context, TASK)
    assert ended is not None
    assert ended.state is TrainingState.CANCELLED
    assert not is_awaited(any_training)


def test_a_dead_training_that_was_not_cancelled_is_left_to_the_next_one(any_training: TrainingCampaign) -> None:
    last = any_training.add_closed_round(first_round_rows())
    with any_training.store.write() as session:
        start_job(session, any_training.task_in(session), last, "head", JOB_OWNER, now=NOON)
    assert (
        end_cancelled_training(ServiceContext(any_training.store, SettableClock(NOON + HEARTBEAT_TIMEOUT)), TASK)
        is None
    )
    with any_training.store.write() as session:
        buried = fail_dead_job(session, any_training.task_in(session), "gone", now=NOON)
    assert buried is not None
    assert buried.state is TrainingState.FAILED


class WatchedRegistry(QuickRegistry):
    """A registry in which something happens right after a version was pinned."""

    def __init__(self, root: Path, after: Callable[[], None]) -> None:
        super().__init__(root)
        self._after = after

    def set_pins(self, *arguments: Any, **options: Any) -> Pins:
        pins = super().set_pins(*arguments, **options)
        self._after()
        return pins


def test_a_cancel_while_the_candidate_is_loaded_keeps_it_out(trainable: TrainingCampaign) -> None:
    before = trainable.pinned()
    loads = 0

    def load(directory: Path) -> Any:
        nonlocal loads
        # Loaded for the evaluation, and again by the rotation.
        if directory.name not in before:
            loads += 1
            if loads == 2:
                cancel(trainable)
        return load_fixed(directory)

    with pytest.raises(TrainingCancelled):
        trainable.retrain(load=load, heartbeat_seconds=60)
    assert loads == 2
    assert trainable.last_job().state is TrainingState.CANCELLED
    trainable.check_unchanged(before)


def test_a_cancel_after_the_version_was_pinned_is_too_late(trainable: TrainingCampaign) -> None:
    hints = []

    def ask() -> None:
        with pytest.raises(TrainingTooLate) as refused:
            cancel(trainable)
        hints.append(refused.value.hint)

    done = trainable.retrain(registry=WatchedRegistry(trainable.models, ask))
    assert (done.rotated, trainable.last_job().state) == (True, TrainingState.ROTATED)
    assert trainable.last_job().cancel_by is None
    assert hints == [Hint("roll_back_model", task=TASK)]
