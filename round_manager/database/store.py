"""The store: one database, used in transactions, and locks between the processes that share it.

A call that one process has sent and not yet heard back from looks, to another process, like a call left behind by a
dead one. So sending calls and looking up what was sent exclude each other. A process that dies releases its locks.
"""

import fcntl
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from common.database import read_only
from round_manager import migrations
from round_manager.database.engine import open_engine
from round_manager.errors import StoreUnavailableError
from round_manager.migrations import Schema


class _RollBack(Exception):
    """Ends a dry run."""


class Store:
    """One database; create it with `open_store`."""

    def __init__(self, engine: Engine, info: Mapping[str, object] | None = None) -> None:
        self.engine = engine
        self._info = dict(info or {})
        self._reading = read_only(engine)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a transaction: committed at the end of the block, rolled back on an error.

        In SQLite it holds the only write lock from its first statement: keep it short, and do not call other services
        inside it.
        """
        # expire_on_commit=False: objects stay readable after the block.
        with Session(self.engine, expire_on_commit=False, info=self._info) as session, session.begin():
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

    def check(self) -> Schema:
        """Return whether the tables match this version."""
        return migrations.check(self._reading)

    def upgrade(self) -> Schema:
        """Create or migrate the tables; safe when two processes do so at the same time."""
        return migrations.upgrade(self.engine)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def open_store(url: str, *, upgrade: bool = False, info: Mapping[str, object] | None = None) -> Store:
    """Open the database at a URL; migrate its tables if asked, or else raise SchemaError if they do not match."""
    store = Store(open_engine(url, create=upgrade), info)
    try:
        schema = store.upgrade() if upgrade else store.check()
        schema.require_current()
    except BaseException:
        store.close()
        raise
    return store


class LazyStore:
    """Opens the database when a process first needs it.

    A server can start before its database is reachable, and no connection is carried over a fork. While the database
    cannot be opened, each use raises the error that says why.
    """

    def __init__(self, url: str, *, opener: Callable[[str], Store] = open_store) -> None:
        self._url = url
        self._opener = opener
        self._store: Store | None = None
        self._lock = threading.Lock()

    def open(self) -> Store:
        """Return the open store, with a current schema; raise a StoreError otherwise."""
        with self._lock:
            if self._store is None:
                self._store = self._opener(self._url)
            return self._store

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
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), key):
            waiting()
            connection.execute(text("SELECT pg_advisory_lock(:key)"), key)
        try:
            yield
        finally:
            # A broken connection has already released the lock; work done under it stays done.
            with suppress(StoreUnavailableError):
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)
