"""Database engines: which URLs are supported, how SQLite and PostgreSQL are configured, and our errors for theirs."""

import re
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError

from common.errors import Hint
from round_manager.database.columns import json_text
from round_manager.errors import (
    DamagedStoreError,
    DuplicateError,
    RefusedError,
    SchemaError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    StoreUrlError,
)

BUSY_SECONDS = 30
READ_ONLY = "outfox_read_only"
NAMED = re.compile(r"(?:CHECK constraint failed: |^)((?:ck|guard)_\w+)")
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
    event.listen(engine, "handle_error", _translate, retval=True)
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
    event.listen(engine, "handle_error", _translate, retval=True)
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


def _translate(context: ExceptionContext) -> BaseException | None:
    """Return our error for a driver's, or None to leave a programming error as it is."""
    original = context.original_exception
    if context.is_pre_ping:
        # The pool is checking whether a connection is alive; it opens another one if not.
        return None
    if isinstance(original, sqlite3.Error):
        return _from_sqlite(original, _description(context))
    # psycopg is optional, so its errors are recognised by their attributes.
    if type(original).__module__.startswith("psycopg"):
        return _from_postgresql(original, _description(context))
    return None


def _description(context: ExceptionContext) -> str:
    """Return a name for the database without credentials: its file, or its name and server."""
    if context.engine is None:
        return "the database"
    url = context.engine.url
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database}"
    # Not the whole URL: it can contain a password in several places.
    host = url.host or url.query.get("host")
    return f"the PostgreSQL database {url.database}" + (f" at {host}" if host else "")


def _from_sqlite(error: sqlite3.Error, database: str) -> StoreError | None:
    name = getattr(error, "sqlite_errorname", "")
    text = str(error)
    if name.startswith("SQLITE_CONSTRAINT"):
        found = NAMED.search(text)
        kind = DuplicateError if name.endswith(("_UNIQUE", "_PRIMARYKEY")) else RefusedError
        return kind(f"the database refused this: {text}", found.group(1) if found else None)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusyError("the database is locked by another process")
    if name.startswith("SQLITE_READONLY"):
        return StoreError(f"{database} is read-only, or this transaction is; check the file's permissions")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreUnavailableError(f"{database} cannot be opened; check its path and permissions")
    # Invalid UTF-8 has no error name.
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or text.startswith("Could not decode to UTF-8"):
        return DamagedStoreError(
            f"{database} is corrupt or not a SQLite database; restore a backup, or correct OUTFOX_HOME or "
            "OUTFOX_DATABASE_URL"
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return StoreUnavailableError("the disk is full or failing; free some space")
    if text.startswith(("no such table", "no such column")):
        return SchemaError("the database does not have the tables of this version", hint=Hint("upgrade_database"))
    return None


def _from_postgresql(error: BaseException, database: str) -> StoreError | None:
    state = str(getattr(error, "sqlstate", None) or "")
    diagnosis = getattr(error, "diag", None)
    # Only the primary message: the details contain the row, with text that people typed.
    text = str(getattr(diagnosis, "message_primary", None) or type(error).__name__)
    if state.startswith("23"):
        kind = DuplicateError if state == "23505" else RefusedError
        return kind(f"the database refused this: {text}", getattr(diagnosis, "constraint_name", None))
    if state in ("40001", "40P01", "55P03"):
        return StoreBusyError("another process is using the same rows of the database")
    if state in ("42P01", "42703"):
        return SchemaError("the database does not have the tables of this version", hint=Hint("upgrade_database"))
    if state in ("XX001", "XX002"):
        return DamagedStoreError(f"{database} is corrupt ({text}); restore a backup")
    if state == "25006":
        return StoreError("this transaction is read-only")
    if state.startswith("53"):
        return StoreUnavailableError(f"PostgreSQL has run out of space or connections ({text})")
    # A connection that breaks in the middle of a response has no state.
    if (type(error).__name__ == "OperationalError" and not state) or state.startswith(("08", "28", "3D", "57P")):
        reason = (text if state else str(error)).strip().splitlines()[0]
        return StoreUnavailableError(f"cannot connect to PostgreSQL ({reason}); check the URL and the server")
    return None
