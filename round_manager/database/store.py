"""The store: one database, used in transactions, and opened at once or on first use."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from round_manager import migrations
from round_manager.database.engine import open_engine, reading
from round_manager.migrations import Schema


class _RollBack(Exception):
    """Ends a dry run."""


class Store:
    """One database; create it with `open_store`."""

    def __init__(self, engine: Engine, info: Mapping[str, object] | None = None) -> None:
        self.engine = engine
        self._info = dict(info or {})
        self._reading = reading(engine)

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
