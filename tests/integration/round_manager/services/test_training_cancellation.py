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
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.registry import QuickRegistry, load_fixed
from tests.fakes.trainer import FakeTrainer
from tests.integration.databases import Databases
from tests.integration.round_manager.learning.school import (
    OWNER,
    TASK,
    School,
    first_round,
    found_school,
    last_job,
    retrain,
    small_pack,
    teach,
    unchanged,
)
from tests.integration.round_manager.learning.test_training_jobs import url_of

DROP_ALL = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


def cancel(school: School) -> None:
    """Cancel as an owner does, from another process."""
    with open_store(url_of(school.store)) as other:
        cancel_training(ServiceContext(other, school.clock), Actor("ada@desk"), TASK)


def is_awaited(school: School) -> bool:
    with school.store.read() as session:
        return pending_training(session, school.task(session)) is not None


def drop_connections(store: Store) -> None:
    """End every other connection, as a restart of PostgreSQL does; the training lock is released with them."""
    with open_store(url_of(store)) as other, other.write() as session:
        session.execute(text(f"{DROP_ALL} AND datname = current_database()"))


def test_a_cancel_after_the_lock_was_lost_reaches_the_process(postgresql_databases: Databases, tmp_path: Path) -> None:
    with open_store(postgresql_databases.migrated()) as store:
        school = teach(found_school(store, small_pack(tmp_path / "packs"), tmp_path / "models"))
        before = school.pinned()

        def lose(step: int) -> None:
            if step == 1:
                drop_connections(store)
                cancel(school)

        with pytest.raises(TrainingCancelled):
            retrain(school, FakeTrainer(school.models, before_step=lose))
        assert (last_job(school).state, last_job(school).cancel_by) == (TrainingState.CANCELLED, "ada@desk")
        assert not is_awaited(school)
        unchanged(school, before)


@pytest.mark.parametrize("state", [TrainingState.FAILED, TrainingState.STOPPED])
def test_a_training_that_ends_after_a_cancel_is_recorded_as_cancelled(any_school: School, state: TrainingState) -> None:
    last = any_school.round_over(first_round())
    with any_school.store.write() as session:
        job = start_job(session, any_school.task(session), last, "head", OWNER, now=NOON)
    cancel(any_school)
    with any_school.store.write() as session:
        finish_job(session, job.id, state, "no memory", now=NOON)
    ended = last_job(any_school)
    assert (ended.state, ended.reason) == (TrainingState.CANCELLED, "cancelled by ada@desk; no memory")
    assert not is_awaited(any_school)


def test_a_cancelled_training_that_died_ends_without_a_heartbeat(any_school: School) -> None:
    last = any_school.round_over(first_round())
    clock = SettableClock()
    context = ServiceContext(any_school.store, clock)
    with any_school.store.write() as session:
        start_job(session, any_school.task(session), last, "head", OWNER, now=NOON)
    assert end_cancelled_training(context, TASK) is None
    asked = cancel_training(context, Actor("ada@desk"), TASK)
    assert asked.state is TrainingState.RUNNING, "its process may be alive"
    assert end_cancelled_training(context, TASK) is None
    clock.advance(HEARTBEAT_TIMEOUT)
    ended = end_cancelled_training(context, TASK)
    assert ended is not None
    assert ended.state is TrainingState.CANCELLED
    assert not is_awaited(any_school)


def test_a_dead_training_that_was_not_cancelled_is_left_to_the_next_one(any_school: School) -> None:
    last = any_school.round_over(first_round())
    with any_school.store.write() as session:
        start_job(session, any_school.task(session), last, "head", OWNER, now=NOON)
    assert (
        end_cancelled_training(ServiceContext(any_school.store, SettableClock(NOON + HEARTBEAT_TIMEOUT)), TASK) is None
    )
    with any_school.store.write() as session:
        buried = fail_dead_job(session, any_school.task(session), "gone", now=NOON)
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


def test_a_cancel_while_the_candidate_is_loaded_keeps_it_out(taught: School) -> None:
    before = taught.pinned()
    loads = 0

    def load(directory: Path) -> Any:
        nonlocal loads
        # Loaded for the evaluation, and again by the rotation.
        if directory.name not in before:
            loads += 1
            if loads == 2:
                cancel(taught)
        return load_fixed(directory)

    with pytest.raises(TrainingCancelled):
        retrain(taught, load=load, heartbeat_seconds=60)
    assert loads == 2
    assert last_job(taught).state is TrainingState.CANCELLED
    unchanged(taught, before)


def test_a_cancel_after_the_version_was_pinned_is_too_late(taught: School) -> None:
    hints = []

    def ask() -> None:
        with pytest.raises(TrainingTooLate) as refused:
            cancel(taught)
        hints.append(refused.value.hint)

    done = retrain(taught, registry=WatchedRegistry(taught.models, ask))
    assert (done.rotated, last_job(taught).state) == (True, TrainingState.ROTATED)
    assert last_job(taught).cancel_by is None
    assert hints == [Hint("roll_back_model", task=TASK)]
