"""Concurrent processes and threads do not cause errors in each other, and every rule holds between them."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from round_manager.database.store import Store
from round_manager.errors import RefusedError
from round_manager.models import Example, LedgerEntry, Round, RoundStatus, Worker
from tests.fakes.clock import NOON
from tests.integration.databases import Databases
from tests.integration.round_manager.database.sample_rows import SampleRows, add_sample_rows

# Each reads, then writes what it read plus one: with a lock that comes too late, SQLite fails here at once.
WRITER = """
import sys
from round_manager.models import Task
from round_manager.database.store import open_store
with open_store(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        with store.write() as session:
            task = session.get_one(Task, 1, with_for_update=True)
            task.folder = str(int(task.folder) + 1)
"""


def _url(store: Store) -> str:
    return store.engine.url.render_as_string(hide_password=False)


def test_two_concurrent_writers_both_succeed(sample: SampleRows) -> None:
    with sample.write() as session:
        session.execute(text("UPDATE task SET folder = '0'"))
    command = [sys.executable, "-c", WRITER, _url(sample.store), "60"]
    pipe = subprocess.PIPE
    writers = [subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, "")
    with sample.store.read() as session:
        assert session.scalar(text("SELECT folder FROM task")) == "120"


def test_concurrent_reservations_stay_within_the_budget(sample: SampleRows) -> None:
    def reserve(number: int) -> bool:
        try:
            with sample.write() as session:
                session.add(sample.new_entry(f"e{number}"))
        except RefusedError as error:
            return error.rule != "ck_round_within_budget"
        return True

    with ThreadPoolExecutor(4) as pool:
        done = sum(pool.map(reserve, range(16)))
    assert done == 500 // 54
    with sample.store.read() as session:
        assert session.scalar(select(func.count()).select_from(LedgerEntry)) == done
        assert session.get_one(Round, sample.round).reserved_cents == 54 * done


def test_two_concurrent_first_uses_of_a_worker_create_one_row(sample: SampleRows) -> None:
    def meet(_: int) -> None:
        with sample.write() as session:
            try:
                with session.begin_nested():
                    session.add(Worker(marketplace="mturk", external_id="new", first_seen_at=NOON))
            except RefusedError:
                session.scalars(select(Worker).where(Worker.external_id == "new")).one()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(meet, range(8)))
    with sample.store.read() as session:
        assert session.scalar(select(func.count()).where(Worker.external_id == "new")) == 1


@pytest.fixture
def served_world(postgresql_databases: Databases) -> Iterator[SampleRows]:
    """A sample in PostgreSQL, where two transactions can really be open at once."""
    with postgresql_databases.opened() as store:
        yield add_sample_rows(store)


@contextmanager
def _second_waits_for_first(
    sample: SampleRows, second: Callable[[], None]
) -> Iterator[tuple[Session, list[Future[None]]]]:
    """Open a transaction, start the second meanwhile, and commit only when the database says that it waits."""
    blocked = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    started: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool, sample.write() as session:
        yield session, started
        started.append(pool.submit(second))
        waiting, deadline = 0, time.monotonic() + 20
        while not waiting:
            assert time.monotonic() < deadline, "the second transaction did not wait"
            assert not started[0].done(), "the second transaction did not wait"
            # In a separate transaction: within one, PostgreSQL reports the same statistics each time.
            with sample.store.read() as watcher:
                waiting = watcher.scalar(blocked) or 0


def test_an_example_being_added_is_stored_before_the_round_closes(served_world: SampleRows) -> None:
    def close() -> None:
        with served_world.write() as session:
            served_world.move_round(session, RoundStatus.CLOSED)

    with _second_waits_for_first(served_world, close) as (session, closing):
        session.add(served_world.new_example())
        session.flush()
    closing[0].result()
    with served_world.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Example)) == 2
        assert session.get_one(Round, served_world.round).status is RoundStatus.CLOSED


def test_an_example_submitted_while_the_round_closes_is_refused(served_world: SampleRows) -> None:
    def add() -> None:
        with served_world.write() as session:
            session.add(served_world.new_example())

    with _second_waits_for_first(served_world, add) as (session, adding):
        served_world.move_round(session, RoundStatus.CLOSED)
    with pytest.raises(RefusedError) as caught:
        adding[0].result()
    assert caught.value.rule == "guard_example_added"


def test_money_is_counted_while_an_example_is_being_added(served_world: SampleRows) -> None:
    with served_world.write() as adding:
        adding.add(served_world.new_example())
        adding.flush()
        with served_world.write() as counting:
            counting.execute(text("SET LOCAL lock_timeout = '5s'"))
            counting.add(served_world.new_entry())
