"""The drivers' errors in our words, translated once, at the engine."""

import re
import sqlite3

from sqlalchemy.engine import ExceptionContext

from round_manager.errors import (
    DuplicateError,
    RefusedError,
    SchemaError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)

UPGRADE = "run `outfox db upgrade`"
NAMED = re.compile(r"(?:CHECK constraint failed: |^)((?:ck|guard)_\w+)")


def translate(context: ExceptionContext) -> BaseException | None:
    """Our error for a driver's; None leaves a programmer's mistake as it is."""
    original = context.original_exception
    if context.is_pre_ping:
        # The pool looks whether a connection still lives; it makes another one by itself.
        return None
    if isinstance(original, sqlite3.Error):
        return _from_sqlite(original)
    # psycopg is optional, so its errors are known by what they carry.
    if type(original).__module__.startswith("psycopg"):
        return _from_postgresql(original, connected=context.connection is not None)
    return None


def _from_sqlite(error: sqlite3.Error) -> StoreError | None:
    name = getattr(error, "sqlite_errorname", "")
    text = str(error)
    if name.startswith("SQLITE_CONSTRAINT"):
        found = NAMED.search(text)
        kind = DuplicateError if name.endswith(("_UNIQUE", "_PRIMARYKEY")) else RefusedError
        return kind(f"the database refused this: {text}", found.group(1) if found else None)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusyError("the database is locked by another process; try again, or end the process that holds it")
    if name.startswith("SQLITE_READONLY"):
        return StoreError("the database, or this transaction, can only be read; check the file's permissions")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreUnavailableError("the database file cannot be opened; check its path and permissions")
    if name in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
        return StoreError("the file is damaged or no SQLite database; correct the URL or restore a backup")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return StoreUnavailableError("the disk is full or fails; make room, then try again")
    if text.startswith(("no such table", "no such column")):
        return SchemaError(f"the database does not have this program's tables; {UPGRADE}")
    return None


def _from_postgresql(error: BaseException, *, connected: bool) -> StoreError | None:
    state = str(getattr(error, "sqlstate", None) or "")
    diagnosis = getattr(error, "diag", None)
    # Only the primary message: the details show the row, with what people typed.
    text = str(getattr(diagnosis, "message_primary", None) or type(error).__name__)
    if state.startswith("23"):
        kind = DuplicateError if state == "23505" else RefusedError
        return kind(f"the database refused this: {text}", getattr(diagnosis, "constraint_name", None))
    if state in ("40001", "40P01", "55P03"):
        return StoreBusyError("the database is busy with the same rows for another process; try again")
    if state in ("42P01", "42703"):
        return SchemaError(f"the database does not have this program's tables; {UPGRADE}")
    if state == "25006":
        return StoreError("this transaction can only read; open one that writes")
    if state.startswith("53"):
        return StoreUnavailableError(f"PostgreSQL has no room or connections left ({text}); make room, then try again")
    if (type(error).__name__ == "OperationalError" and not connected) or state.startswith(("08", "28", "3D", "57P")):
        reason = (text if state else str(error)).strip().splitlines()[-1]
        return StoreUnavailableError(f"PostgreSQL cannot be reached ({reason}); check the URL and that it runs")
    return None
