"""The drivers' errors in our words, translated once, at the engine."""

import re
import sqlite3

from sqlalchemy.engine import ExceptionContext

from round_manager.errors import (
    DamagedStoreError,
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
        return _from_sqlite(original, _called(context))
    # psycopg is optional, so its errors are known by what they carry.
    if type(original).__module__.startswith("psycopg"):
        return _from_postgresql(original, _called(context))
    return None


def _called(context: ExceptionContext) -> str:
    """What people call the database: a file, or its name and its server, without what lets one in."""
    if context.engine is None:
        return "the database"
    url = context.engine.url
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database}"
    # Not the whole URL: a password can stand in several places of it.
    host = url.host or url.query.get("host")
    return f"the PostgreSQL database {url.database}" + (f" at {host}" if host else "")


def _from_sqlite(error: sqlite3.Error, called: str) -> StoreError | None:
    name = getattr(error, "sqlite_errorname", "")
    text = str(error)
    if name.startswith("SQLITE_CONSTRAINT"):
        found = NAMED.search(text)
        kind = DuplicateError if name.endswith(("_UNIQUE", "_PRIMARYKEY")) else RefusedError
        return kind(f"the database refused this: {text}", found.group(1) if found else None)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusyError("the database is locked by another process; try again, or end the process that holds it")
    if name.startswith("SQLITE_READONLY"):
        return StoreError(f"{called}, or this transaction, can only be read; check the file's permissions")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreUnavailableError(f"{called} cannot be opened; check its path and permissions")
    # Texts that are none have no name of their own.
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or text.startswith("Could not decode to UTF-8"):
        told = f"{called} is damaged or no SQLite database"
        return DamagedStoreError(f"{told}; restore a backup of it, or correct OUTFOX_HOME or OUTFOX_DATABASE_URL")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return StoreUnavailableError("the disk is full or fails; make room, then try again")
    if text.startswith(("no such table", "no such column")):
        return SchemaError(f"the database does not have this program's tables; {UPGRADE}")
    return None


def _from_postgresql(error: BaseException, called: str) -> StoreError | None:
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
    if state in ("XX001", "XX002"):
        return DamagedStoreError(f"{called} is damaged ({text}); restore a backup of it")
    if state == "25006":
        return StoreError("this transaction can only read; open one that writes")
    if state.startswith("53"):
        return StoreUnavailableError(f"PostgreSQL has no room or connections left ({text}); make room, then try again")
    # A line that was cut in the middle of an answer has no state: nobody was left to tell one.
    if (type(error).__name__ == "OperationalError" and not state) or state.startswith(("08", "28", "3D", "57P")):
        reason = (text if state else str(error)).strip().splitlines()[0]
        return StoreUnavailableError(f"PostgreSQL cannot be reached ({reason}); check the URL and that it runs")
    return None
