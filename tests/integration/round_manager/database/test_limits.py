"""A store answers in time, or says that it cannot: connections, locks, statements and writers have limits."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise

import pytest
from sqlalchemy import text

from common.database_engine import DatabaseLimits
from round_manager.database.store import LazyStore, Store, open_store, process_lock
from round_manager.errors import StoreBusyError, StoreTimeoutError, StoreUnavailableError
from tests.integration.databases import Databases, StoppablePostgresql
from tests.integration.round_manager.database.sample_rows import new_task

QUICK = DatabaseLimits(connections=2, connect=2.0, lock=0.2, statement=0.3)
# The driver waits at least two seconds for a new connection, after one for an old one; the rest is for slow machines.
LONGEST = 8.0


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < seconds, f"it took {took:.1f} s"


@pytest.mark.xdist_group("stoppable-postgresql")
def test_a_stopped_server_is_reported_in_time_and_used_again_afterwards(
    stoppable_postgresql: StoppablePostgresql,
) -> None:
    with open_store(stoppable_postgresql.migrated(), limits=QUICK) as store:
        with (
            stoppable_postgresql.stopped(),
            within(LONGEST),
            pytest.raises(StoreUnavailableError) as caught,
            store.read() as session,
        ):
            session.execute(text("SELECT 1"))
        assert caught.value.retry
        with store.write() as session:
            session.add(new_task("after"))


@pytest.mark.xdist_group("stoppable-postgresql")
def test_a_transaction_that_gets_no_answer_ends_in_time(stoppable_postgresql: StoppablePostgresql) -> None:
    def ask(store: Store) -> None:
        with store.write() as session:
            session.execute(text("SELECT 1"))
            with stoppable_postgresql.stopped():
                session.execute(text("SELECT 1"))

    with open_store(stoppable_postgresql.migrated(), limits=QUICK) as store:
        with within(LONGEST), pytest.raises(StoreUnavailableError):
            ask(store)
        with store.read() as session:
            assert session.scalar(text("SELECT 1")) == 1


@pytest.mark.xdist_group("stoppable-postgresql")
def test_only_one_thread_waits_for_a_stopped_server(stoppable_postgresql: StoppablePostgresql) -> None:
    def use(store: LazyStore) -> float:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError), store.open().read() as session:
            session.execute(text("SELECT 1"))
        return time.monotonic() - began

    url = stoppable_postgresql.migrated()
    new, old = (LazyStore(url, opener=lambda url: open_store(url, limits=QUICK)) for _ in range(2))
    old.open()
    with stoppable_postgresql.stopped(), ThreadPoolExecutor(8) as threads:
        # The first uses find out.
        list(threads.map(use, (new, old)))
        waits = [threads.submit(use, store) for store in (new, new, new, old, old, old)]
        assert sorted(one.result() > 1.0 for one in waits) == [False] * 4 + [True] * 2
    for store in (new, old):
        with store.open().read() as session:
            assert session.scalar(text("SELECT 1")) == 1
        store.close()


def test_postgresql_ends_a_slow_statement(postgresql_databases: Databases) -> None:
    with (
        open_store(postgresql_databases.migrated(), limits=QUICK) as store,
        within(LONGEST),
        pytest.raises(StoreTimeoutError) as caught,
        store.read() as session,
    ):
        session.execute(text("SELECT pg_sleep(60)"))
    assert caught.value.retry


def test_a_lock_is_waited_for_in_time(databases: Databases) -> None:
    url = databases.migrated()
    with open_store(url) as holder, open_store(url, limits=QUICK) as other:
        with holder.write() as session:
            session.add(new_task("held"))
            session.flush()
            with within(LONGEST), pytest.raises(StoreBusyError), other.write() as late:
                late.add(new_task("held"))
        with other.write() as session:
            session.add(new_task("later"))


def test_a_connection_is_waited_for_in_time(databases: Databases) -> None:
    with open_store(databases.migrated(), limits=QUICK) as store, ExitStack() as stack:
        for _ in range(QUICK.connections):
            stack.enter_context(store.read()).execute(text("SELECT 1"))
        with within(LONGEST), pytest.raises(StoreBusyError) as caught, store.read() as session:
            session.execute(text("SELECT 1"))
        assert caught.value.retry


def test_a_lock_between_processes_outlasts_the_limits(databases: Databases) -> None:
    url, waits = databases.migrated(), threading.Event()
    # On a busy machine, a store may take longer than QUICK to open.
    limits = DatabaseLimits(connections=2, lock=0.5, statement=1.0)
    with open_store(url, limits=limits) as one, open_store(url, limits=limits) as other:

        def work() -> str:
            with process_lock(other, "till", waits.set):
                return "done"

        with ThreadPoolExecutor(1) as threads:
            with process_lock(one, "till"):
                working = threads.submit(work)
                assert waits.wait(30)
                # Longer than any limit of a lock or a statement.
                with pytest.raises(TimeoutError):
                    working.result(timeout=2 * (limits.statement or 0))
            assert working.result(timeout=30) == "done"


def test_an_upgrade_has_no_limits(postgresql_databases: Databases) -> None:
    url = postgresql_databases.empty()
    # Reading the schema afterwards is limited again, and may fail.
    with suppress(StoreTimeoutError):
        open_store(url, upgrade=True, limits=DatabaseLimits(statement=0.001)).close()
    open_store(url).close()


def test_writers_of_one_process_take_turns(sqlite_databases: Databases) -> None:
    writers, turns = 24, 12
    with open_store(sqlite_databases.migrated()) as store, ThreadPoolExecutor(writers) as threads:
        with store.write() as session:
            session.add(new_task("sentiment"))

        def write(_number: int) -> list[float]:
            ended = []
            for _ in range(turns):
                with store.write() as session:
                    session.execute(text("UPDATE task SET folder = folder || 'x'"))
                ended.append(time.monotonic())
            return ended

        all_ended = list(threads.map(write, range(writers)))
    order = sorted((moment, writer) for writer, ended in enumerate(all_ended) for moment in ended)
    # Between two turns of one writer, every other one has a turn or two: none is passed over again and again.
    longest = 0
    for writer in range(writers):
        places = [place for place, (_, one) in enumerate(order) if one == writer]
        longest = max(longest, *(later - earlier for earlier, later in pairwise(places)))
    assert longest < 3 * writers
    with open_store(str(store.engine.url)) as store, store.read() as session:
        assert session.scalar(text("SELECT length(folder) FROM task")) >= writers * turns


def test_a_writer_that_waits_too_long_for_its_turn_is_told(sqlite_databases: Databases) -> None:
    with open_store(sqlite_databases.migrated(), limits=QUICK) as store, ThreadPoolExecutor(1) as threads:

        def write() -> None:
            with store.write() as session:
                session.add(new_task("late"))

        with store.write():
            assert isinstance(threads.submit(write).exception(timeout=5), StoreBusyError)
        write()
