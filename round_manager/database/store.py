"""The store: one database, used in transactions, and locks between the processes that share it.

A call that one process has sent and not yet heard back from looks, to another process, like a call left behind by a
dead one. So sending calls and looking up what was sent exclude each other. A process that dies releases its locks.
"""

import copy
import fcntl
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from common.arrival import arrived_at
from common.database import read_only
from common.database_engine import SLOW_SECONDS, DatabaseLimits
from common.database_probe import DatabaseProbe
from common.health import HealthCheck
from common.locks import FairLock
from round_manager import migrations
from round_manager.database.engine import open_engine
from round_manager.errors import StoreBusyError, StoreError, StoreUnavailableError
from round_manager.migrations import Schema

# A row that every database has, written as it was.
TOUCH = text("UPDATE alembic_version SET version_num = version_num")
# How often a process that waits for another one's lock looks whether it is free. PostgreSQL could wait instead, but
# not longer than its limits allow, while a lock may be held for as long as a training takes.
LOCK_POLL_SECONDS = 0.2


class _RollBack(Exception):
    """Ends a dry run."""


class Store:
    """One database; create it with `open_store`."""

    def __init__(
        self, engine: Engine, info: Mapping[str, object] | None = None, limits: DatabaseLimits | None = None
    ) -> None:
        self.engine = engine
        self._info = dict(info or {})
        self._limits = limits or DatabaseLimits()
        self._reading = read_only(engine)
        # SQLite has one writer at a time, and lets the others sleep and try again; some of many threads may then never
        # have a turn. So the threads of a process queue here; only processes compete for SQLite's own lock.
        self._turn = FairLock() if engine.dialect.name == "sqlite" else None
        self._probe = DatabaseProbe(engine.url, _existing_engine, StoreBusyError)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a transaction: committed at the end of the block, rolled back on an error.

        In SQLite it holds the only write lock from its first statement: keep it short, and do not call other services
        inside it.
        """
        # expire_on_commit=False: objects stay readable after the block.
        with (
            self._in_turn(),
            Session(self.engine, expire_on_commit=False, info=self._info) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read-only transaction that sees one snapshot of the database."""
        with (
            Session(self._reading, expire_on_commit=False, autoflush=False, info=self._info) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def dry_run(self) -> Iterator[Session]:
        """Open a transaction that is always rolled back; errors inside it are raised as usual."""
        try:
            with self.write() as session:
                yield session
                raise _RollBack
        except _RollBack:
            return

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Wait until this thread may write, if writers queue."""
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(self._limits.lock):
            raise StoreBusyError("too many threads of this process are waiting to write")
        try:
            yield
        finally:
            self._turn.release()

    def check(self) -> Schema:
        """Return whether the tables match this version."""
        return migrations.check(self._reading)

    def probe(self) -> Schema:
        """Return the schema after an actual write; raise an error if the database cannot be used or written."""
        return self._probe.run(_current_schema, TOUCH)

    def upgrade(self) -> Schema:
        """Create or migrate the tables; safe when two processes do so at the same time."""
        return migrations.upgrade(self.engine)

    def close(self) -> None:
        """Close all connections."""
        self._probe.close()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _existing_engine(url: str, limits: DatabaseLimits) -> Engine:
    return open_engine(url, create=False, limits=limits)


def _current_schema(engine: Engine) -> Schema:
    schema = migrations.check(engine)
    schema.require_current()
    return schema


def open_store(
    url: str,
    *,
    upgrade: bool = False,
    info: Mapping[str, object] | None = None,
    limits: DatabaseLimits | None = None,
) -> Store:
    """Open the database at a URL; migrate its tables if asked, or else raise SchemaError if they do not match."""
    limits = limits or DatabaseLimits()
    if upgrade:
        _upgrade(url, limits)
    store = Store(open_engine(url, create=False, limits=limits), info, limits)
    try:
        schema = store.check()
        schema.require_current()
    except BaseException:
        store.close()
        raise
    return store


def _upgrade(url: str, limits: DatabaseLimits) -> None:
    """Migrate the tables, which may take any time."""
    with Store(open_engine(url, create=True, limits=replace(limits, lock=None, statement=None))) as store:
        store.upgrade()


class LazyStore:
    """Opens the database when a process first needs it.

    A server can start before its database is reachable, and no connection is carried over a fork. While the database
    cannot be opened, each use raises the error that says why. If that takes long, one thread tries at a time, and the
    others raise the last error at once, as do requests that arrived before it. `keep` is for how many seconds a result
    of the health check is returned again.
    """

    def __init__(self, url: str, *, opener: Callable[[str], Store] = open_store, keep: float = 0.0) -> None:
        self._url = url
        self._opener = opener
        self._store: Store | None = None
        # With when it was raised, by the monotonic clock.
        self._slow_failure: tuple[StoreError, float] | None = None
        self._lock = threading.Lock()
        self.health = HealthCheck(lambda: {"revision": self.open().probe().found}, keep=keep)

    def open(self) -> Store:
        """Return the open store, with a current schema; raise a StoreError otherwise."""
        store, failure = self._store, self._slow_failure
        if store is not None:
            return store
        if failure is not None and (arrived_at() <= failure[1] or not self._lock.acquire(blocking=False)):
            raise copy.copy(failure[0])
        if failure is None:
            self._lock.acquire()
        try:
            if self._store is None:
                if self._slow_failure is not None and self._slow_failure is not failure:
                    # Another thread tried while this one waited.
                    raise copy.copy(self._slow_failure[0])
                self._store = self._open()
            return self._store
        finally:
            self._lock.release()

    def _open(self) -> Store:
        began = time.monotonic()
        try:
            store = self._opener(self._url)
        except StoreError as error:
            ended = time.monotonic()
            self._slow_failure = (error, ended) if ended - began >= SLOW_SECONDS else None
            raise
        self._slow_failure = None
        return store

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None


def _ignore() -> None:
    """Do nothing."""


@contextmanager
def process_lock(store: Store, name: str, waiting: Callable[[], None] = _ignore) -> Iterator[None]:
    """Hold a named lock until the end of the block; `waiting` is called once if another process holds it."""
    if store.engine.dialect.name == "sqlite":
        with _file_lock(Path(str(store.engine.url.database)), name, waiting):
            yield
    else:
        with _advisory_lock(store.engine, name, waiting):
            yield


@contextmanager
def _file_lock(database: Path, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    # The kernel releases the lock when the process ends; the empty file stays.
    with database.with_name(f"{database.name}.{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _advisory_lock(engine: Engine, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    key = {"key": int.from_bytes(hashlib.sha256(f"outfox.{name}".encode()).digest()[:8], signed=True)}
    # A separate connection without a transaction: PostgreSQL releases the lock with the connection.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        attempt = text("SELECT pg_try_advisory_lock(:key)")
        if not connection.scalar(attempt, key):
            waiting()
            while not connection.scalar(attempt, key):
                time.sleep(LOCK_POLL_SECONDS)
        try:
            yield
        finally:
            # A broken connection has already released the lock; work done under it stays done.
            with suppress(StoreUnavailableError):
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)
