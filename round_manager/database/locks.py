"""Locks between processes that share a database; a process that dies releases its locks.

A call that one process has sent and not yet heard back from looks, to another process, like a call left behind by a
dead one. So sending calls and looking up what was sent exclude each other.
"""

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Engine, text

from round_manager.database.store import Store
from round_manager.errors import StoreUnavailableError


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
