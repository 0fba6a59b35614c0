"""Turns: of all processes on one database, one at a time does a thing; whoever dies gives the turn back.

What one process has sent and not yet heard of looks, to another, just like what a dead one left behind. So those who
send and those who look up what was sent take turns.
"""

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Engine, text

from round_manager.database.store import Store
from round_manager.errors import StoreUnavailableError


def _wait_quietly() -> None:
    """Where nobody wants to know."""


@contextmanager
def turn(store: Store, name: str, waiting: Callable[[], None] = _wait_quietly) -> Iterator[None]:
    """Ours alone until the end of the block; `waiting` is called once if another process has it now."""
    if store.engine.dialect.name == "sqlite":
        with _file_turn(Path(str(store.engine.url.database)), name, waiting):
            yield
    else:
        with _advisory_turn(store.engine, name, waiting):
            yield


@contextmanager
def _file_turn(database: Path, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    # The kernel gives the lock back with the process, however that ends; the file stays, and says nothing.
    with database.with_name(f"{database.name}.{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _advisory_turn(engine: Engine, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    key = {"key": int.from_bytes(hashlib.sha256(f"outfox.{name}".encode()).digest()[:8], signed=True)}
    # A connection of its own, and no transaction: the lock is the connection's, and PostgreSQL ends it with that.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), key):
            waiting()
            connection.execute(text("SELECT pg_advisory_lock(:key)"), key)
        try:
            yield
        finally:
            # A connection that is gone has given the turn back already; what was done in it stays done.
            with suppress(StoreUnavailableError):
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)
