"""Database engines: the URLs that are supported, and how SQLite and PostgreSQL are configured."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from common.errors import Hint
from round_manager.database.columns import json_text
from round_manager.database.driver_errors import translate
from round_manager.errors import StoreUnavailableError, StoreUrlError

BUSY_SECONDS = 30
READ_ONLY = "outfox_read_only"
EXAMPLES = "use sqlite:///folder/outfox.db or postgresql://user@host/database"


def open_engine(url: str, *, create: bool) -> Engine:
    """Return an engine for a database URL; it does not connect yet."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, create=create)
    try:
        # hide_parameters: text that people typed must not reach a log through an error message.
        engine = create_engine(parsed, json_serializer=json_text, hide_parameters=True, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreUrlError(
            "the PostgreSQL driver is not installed", hint=Hint("install_extra", extra="postgres")
        ) from error
    event.listen(engine, "handle_error", translate, retval=True)
    return engine


def reading(engine: Engine) -> Engine:
    """Return the engine for read-only transactions, which see one snapshot of the database."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{READ_ONLY: True})
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        name = parsed.get_backend_name()
    except ArgumentError as error:
        raise StoreUrlError(f"invalid database URL; {EXAMPLES}") from error
    if name in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if name != "sqlite":
        raise StoreUrlError(f"databases of type {name} are not supported; {EXAMPLES}")
    if not parsed.database or parsed.database == ":memory:":
        raise StoreUrlError(f"an in-memory database is lost when its process ends; {EXAMPLES}")
    return parsed.set(drivername="sqlite+pysqlite")


def _sqlite(url: URL, *, create: bool) -> Engine:
    file = Path(str(url.database))
    if not create and not file.is_file():
        text = f"no database at {file} (set by OUTFOX_HOME or OUTFOX_DATABASE_URL)"
        raise StoreUnavailableError(text, hint=Hint("upgrade_database"))
    if not file.parent.is_dir():
        raise StoreUrlError(f"the database folder {file.parent} does not exist; create it or correct the URL")
    engine = create_engine(url, json_serializer=json_text, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})
    if create:
        event.listen(engine, "do_connect", lambda *_: _make_private(file))
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", translate, retval=True)
    return engine


def _make_private(file: Path) -> None:
    """Create the file readable by its owner only: it holds the salt of worker pseudonyms."""
    # If this fails, SQLite reports why. It gives its log file the same mode.
    with suppress(OSError):
        file.touch(mode=0o600, exist_ok=False)


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    """Configure WAL, foreign keys and explicit transactions."""
    connection.isolation_level = None
    _use_wal(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL, not NORMAL: with NORMAL, a power failure could undo the commit "this payment is being sent" after the call
    # was made, and the payment would be sent again. This costs one fsync per commit.
    connection.execute("PRAGMA synchronous = FULL")
    # Without this, INSERT OR REPLACE deletes rows without running the triggers.
    connection.execute("PRAGMA recursive_triggers = ON")


def _use_wal(connection: sqlite3.Connection) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "alembic_version" not in tables:
        return  # Another program's database: it will be refused, and must not be changed.
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise StoreUnavailableError(
                    "SQLite cannot use a write-ahead log here; put the database on a local disk"
                )
        except sqlite3.OperationalError as error:
            # The busy timeout does not apply when two processes switch a new file at the same time.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    """Take the write lock at the start: a reader that upgrades to a writer later may fail instead of waiting."""
    if connection.get_execution_options().get(READ_ONLY):
        connection.exec_driver_sql("PRAGMA query_only = ON")
        connection.exec_driver_sql("BEGIN DEFERRED")
    else:
        connection.exec_driver_sql("PRAGMA query_only = OFF")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
