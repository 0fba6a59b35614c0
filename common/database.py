"""What Outfox's own database and the marketplace's share: URLs, how SQLite is set up, and a column for times."""

import sqlite3
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import URL, BigInteger, Connection, DateTime, Dialect, Engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.types import TypeDecorator, TypeEngine

from common.errors import CodedError

WAL_SECONDS = 30
READ_ONLY = "outfox_read_only"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class UtcTime(TypeDecorator[datetime]):
    """A time in UTC to the microsecond: timestamptz, or in SQLite microseconds since 1970 as an integer."""

    impl = DateTime(timezone=True)
    cache_ok = True
    # Raised for a time without a time zone: it would be stored as a different time.
    refusal: ClassVar[type[Exception]] = ValueError

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type that the database stores."""
        return dialect.type_descriptor(BigInteger() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Reject a time without a time zone."""
        if value is None:
            return None
        if not isinstance(value, datetime) or value.utcoffset() is None:
            raise self.refusal(f"{value!r} is not a timezone-aware time")
        return (value - EPOCH) // MICROSECOND if dialect.name == "sqlite" else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        if value is None:
            return None
        if isinstance(value, int):
            return EPOCH + value * MICROSECOND
        aware: datetime = value.astimezone(UTC)
        return aware


def parse_url(url: str, *, name: str, error: type[CodedError]) -> URL:
    """Return a database URL with its driver; raise `error` unless it is a SQLite file or a PostgreSQL database."""
    examples = f"use sqlite:///folder/{name}.db or postgresql://user@host/database"
    try:
        parsed = make_url(url)
        kind = parsed.get_backend_name()
    except ArgumentError as cause:
        raise error(f"invalid database URL; {examples}") from cause
    if kind in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise error(f"databases of type {kind} are not supported; {examples}")
    if not parsed.database or parsed.database == ":memory:":
        raise error(f"an in-memory database is lost when its process ends; {examples}")
    return parsed.set(drivername="sqlite+pysqlite")


def read_only(engine: Engine) -> Engine:
    """Return the engine for read-only transactions, which see one snapshot and take no write lock."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{READ_ONLY: True})
    return engine.execution_options(**{READ_ONLY: True}, isolation_level="REPEATABLE READ", postgresql_readonly=True)


def require_folder(file: Path, error: type[CodedError]) -> None:
    """Raise `error` if a database file cannot be created because its folder is missing."""
    if not file.parent.is_dir():
        raise error(f"the database folder {file.parent} does not exist; create it or correct the URL")


def make_private(file: Path) -> None:
    """Create a missing file readable by its owner only: it holds access keys, or the salt of worker pseudonyms."""
    # If this fails, SQLite reports why. It gives its log file the same mode.
    with suppress(OSError):
        file.touch(mode=0o600, exist_ok=False)


def set_up_sqlite(connection: sqlite3.Connection, _record: Any = None) -> None:
    """Configure foreign keys and explicit transactions."""
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL, not NORMAL: with NORMAL, a power failure could undo the commit "this payment is being sent" after the call
    # was made, and the payment would be sent again. This costs one fsync per commit.
    connection.execute("PRAGMA synchronous = FULL")


def use_wal(connection: sqlite3.Connection, error: type[CodedError]) -> None:
    """Switch the file to a write-ahead log."""
    deadline = time.monotonic() + WAL_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise error("SQLite cannot use a write-ahead log here; put the database on a local disk")
        except sqlite3.OperationalError as busy:
            # The busy timeout does not apply when two processes switch a new file at the same time.
            if busy.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def begin_sqlite(connection: Connection) -> None:
    """Take the write lock at the start: a reader that upgrades to a writer later may fail instead of waiting."""
    reads = connection.get_execution_options().get(READ_ONLY)
    connection.exec_driver_sql("BEGIN DEFERRED" if reads else "BEGIN IMMEDIATE")
