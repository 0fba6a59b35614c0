"""Opening a database: which URLs are taken, and how SQLite and PostgreSQL are set up."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from round_manager.database.columns import json_text
from round_manager.database.refusal import translate
from round_manager.errors import StoreUnavailableError, StoreUrlError

BUSY_SECONDS = 30
READS = "outfox_reads"
CURE = "write sqlite:///folder/outfox.db or postgresql://user@host/database"


def open_engine(url: str, *, create: bool) -> Engine:
    """An engine for a database URL; nothing but a SQLite file's folder is looked at yet."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, create=create)
    try:
        # hide_parameters: what people typed must not reach a log with an error's text.
        engine = create_engine(parsed, json_serializer=json_text, hide_parameters=True, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreUrlError('PostgreSQL needs its driver; run `pip install "outfox[postgres]"`') from error
    event.listen(engine, "handle_error", translate, retval=True)
    return engine


def reading(engine: Engine) -> Engine:
    """The same engine for transactions that only read: one moment's view, and no write gets through."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{READS: True})
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        name = parsed.get_backend_name()
    except ArgumentError as error:
        raise StoreUrlError(f"the database URL cannot be read; {CURE}") from error
    if name in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if name != "sqlite":
        raise StoreUrlError(f"databases of kind {name} are not supported; {CURE}")
    if not parsed.database or parsed.database == ":memory:":
        raise StoreUrlError(f"a database in memory is lost with its process; {CURE}")
    return parsed.set(drivername="sqlite+pysqlite")


def _sqlite(url: URL, *, create: bool) -> Engine:
    file = Path(str(url.database))
    if not create and not file.is_file():
        cure = "`outfox db upgrade` makes it, or correct OUTFOX_HOME or OUTFOX_DATABASE_URL"
        raise StoreUnavailableError(f"there is no database at {file}; {cure}")
    if not file.parent.is_dir():
        raise StoreUrlError(f"there is no folder {file.parent} for the database; make it or correct the URL")
    engine = create_engine(url, json_serializer=json_text, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})
    if create:
        event.listen(engine, "do_connect", lambda *_: _make_private(file))
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", translate, retval=True)
    return engine


def _make_private(file: Path) -> None:
    """Where there is no file yet, makes one that nobody else can read: it holds what pseudonyms are made with."""
    # What SQLite cannot open or write either, it tells in its own words. Its log gets the same mode by itself.
    with suppress(OSError):
        file.touch(mode=0o600, exist_ok=False)


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    """WAL, foreign keys, and transactions that begin when we say so."""
    connection.isolation_level = None
    _use_wal(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL, not NORMAL: with NORMAL, a power cut can undo the commit "this payment is being sent" after the call was
    # made, and the payment would be made again. It costs one fsync for each commit.
    connection.execute("PRAGMA synchronous = FULL")
    # Without this, INSERT OR REPLACE removes rows behind the guards' backs.
    connection.execute("PRAGMA recursive_triggers = ON")


def _use_wal(connection: sqlite3.Connection) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "alembic_version" not in tables:
        return  # Somebody else's file: it will be refused, and stays as it is until then.
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise StoreUnavailableError(
                    "SQLite cannot use its write-ahead log here; put the database on a local disk"
                )
        except sqlite3.OperationalError as error:
            # The busy timeout does not cover two processes that switch a new file at the same moment.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    """Take the write lock at once: a reader that becomes a writer later can fail at any moment instead of waiting."""
    if connection.get_execution_options().get(READS):
        connection.exec_driver_sql("PRAGMA query_only = ON")
        connection.exec_driver_sql("BEGIN DEFERRED")
    else:
        connection.exec_driver_sql("PRAGMA query_only = OFF")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
