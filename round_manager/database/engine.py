"""Database engines: how SQLite and PostgreSQL are configured, and our errors for theirs."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import URL, Connection, Engine, Select, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.orm import Session

from common import database
from common.database_engine import DatabaseLimits, limited_engine
from common.errors import Hint
from round_manager.database.columns import json_text
from round_manager.errors import (
    DamagedStoreError,
    DuplicateError,
    RefusedError,
    SchemaError,
    StoreBusyError,
    StoreError,
    StoreReadOnlyError,
    StoreTimeoutError,
    StoreUnavailableError,
    StoreUrlError,
)

Row = TypeVar("Row")
# Classes of SQLSTATE: connections, access, shutdown and system errors; the end of an idle transaction; and what a
# standby server, or a statement prepared before an upgrade, does not support.
UNAVAILABLE_STATES = ("08", "28", "3D", "57P", "58", "25P03", "0A000")
NAMED = re.compile(r"(?:CHECK constraint failed: |^)((?:ck|guard)_\w+)")


def open_engine(url: str, *, create: bool, limits: DatabaseLimits | None = None) -> Engine:
    """Return an engine for a database URL; it does not connect yet."""
    parsed = database.parse_url(url, name="outfox", error=StoreUrlError)
    limits = limits or DatabaseLimits()
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, limits, create=create)
    try:
        engine = limited_engine(parsed, limits, StoreBusyError, json_serializer=json_text)
    except ModuleNotFoundError as error:
        raise StoreUrlError(
            "the PostgreSQL driver is not installed", hint=Hint("install_extra", extra="postgres")
        ) from error
    event.listen(engine, "handle_error", _translate, retval=True)
    return engine


def locks_rows(session: Session) -> bool:
    """Whether a transaction has to lock rows, and to read them again once they are locked.

    In SQLite a transaction that writes keeps out all others from its first statement.
    """
    return session.get_bind().dialect.name == "postgresql"


def find_or_add(session: Session, wanted: Select[Row], new: Callable[[], Row]) -> Row:
    """Return the row that is wanted; add a new one if there is none, unless another process does so meanwhile."""
    found = session.scalar(wanted)
    if found is not None:
        return found
    try:
        with session.begin_nested():
            row = new()
            session.add(row)
    except DuplicateError:
        return session.scalars(wanted).one()
    return row


def _sqlite(url: URL, limits: DatabaseLimits, *, create: bool) -> Engine:
    file = Path(str(url.database))
    if not create and not file.is_file():
        text = f"no database at {file} (set by OUTFOX_HOME or OUTFOX_DATABASE_URL)"
        raise StoreUnavailableError(text, hint=Hint("upgrade_database"))
    database.require_folder(file, StoreUrlError)
    engine = limited_engine(url, limits, StoreBusyError, json_serializer=json_text)
    if create:
        event.listen(engine, "do_connect", lambda *_: database.make_private(file))
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", _translate, retval=True)
    return engine


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    """Configure WAL, foreign keys and explicit transactions."""
    database.set_up_sqlite(connection)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    # Another program's database will be refused, and must not be changed.
    if not tables or "alembic_version" in tables:
        database.use_wal(connection, StoreUnavailableError)
    # Without this, INSERT OR REPLACE deletes rows without running the triggers.
    connection.execute("PRAGMA recursive_triggers = ON")


def _begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get(database.READ_ONLY)
    # On the driver's own connection: this cannot fail, and runs before each transaction.
    driver = cast("sqlite3.Connection", connection.connection.driver_connection)
    driver.execute(f"PRAGMA query_only = {'ON' if reads else 'OFF'}")
    database.begin_sqlite(connection)


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


def _from_sqlite(error: sqlite3.Error, where: str) -> StoreError | None:
    name = getattr(error, "sqlite_errorname", "")
    text = str(error)
    if name.startswith("SQLITE_CONSTRAINT"):
        found = NAMED.search(text)
        kind = DuplicateError if name.endswith(("_UNIQUE", "_PRIMARYKEY")) else RefusedError
        return kind(f"the database refused this: {text}", found.group(1) if found else None)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusyError("the database is locked by another process")
    if name.startswith("SQLITE_READONLY"):
        return StoreReadOnlyError(f"{where} is read-only, or this transaction is; check the file's permissions")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreUnavailableError(f"{where} cannot be opened; check its path and permissions")
    # Invalid UTF-8 has no error name.
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or text.startswith("Could not decode to UTF-8"):
        return DamagedStoreError(
            f"{where} is corrupt or not a SQLite database; restore a backup, or correct OUTFOX_HOME or "
            "OUTFOX_DATABASE_URL"
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return StoreUnavailableError("the disk is full or failing; free some space")
    if text.startswith(("no such table", "no such column")):
        return SchemaError("the database does not have the tables of this version", hint=Hint("upgrade_database"))
    return None


def _from_postgresql(error: BaseException, where: str) -> StoreError | None:
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
        return DamagedStoreError(f"{where} is corrupt ({text}); restore a backup")
    if state == "25006":
        return StoreReadOnlyError("this transaction is read-only, or the server is")
    if state == "42501":
        return StoreReadOnlyError(f"the database user lacks a permission ({text})")
    if state.startswith("53"):
        return StoreUnavailableError(f"PostgreSQL has run out of space or connections ({text})")
    if state == "57014":
        return StoreTimeoutError("PostgreSQL took too long and stopped the statement")
    # A connection that breaks in the middle of a response, or on which this process stopped waiting, has no state.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if (not state and kinds & {"OperationalError", "InterfaceError"}) or state.startswith(UNAVAILABLE_STATES):
        reason = (text if state else str(error)).strip().splitlines()[0]
        return StoreUnavailableError(f"cannot connect to PostgreSQL ({reason}); check the URL and the server")
    return None
