"""Open the marketplace's database, SQLite or PostgreSQL, and create its tables."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, make_url, select, update
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError

from common.errors import Hint
from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.tables.base import Base
from mturk.marketplace.tables.people import Release

SCHEMA_VERSION = 2
# Later versions only added tables, so a database of this version is upgraded by creating the missing ones.
OLDEST_SCHEMA_VERSION = 1
BUSY_SECONDS = 30
READ_ONLY = "market_reads"
CONNECTIONS = 16
URL_EXAMPLES = "write sqlite:///folder/marketplace.db or postgresql://user@host/database"
# An arbitrary number, the same in every process: the advisory lock that all writers on PostgreSQL take.
WRITER_LOCK = 0x4F55544D


def open_database(url: str) -> Engine:
    """Return an engine for a database URL, with all tables created; refuse another application's database."""
    engine = _open_engine(url)
    try:
        _create_tables(engine)
    except DBAPIError as error:
        engine.dispose()
        raise MarketDatabaseError(
            f"the database cannot be opened ({error.orig}); correct the URL or start the database server"
        ) from error
    except BaseException:
        engine.dispose()
        raise
    return engine


def read_only(engine: Engine) -> Engine:
    """Return the same engine for read-only transactions, which see one snapshot and take no write lock."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{READ_ONLY: True})
    return engine.execution_options(**{READ_ONLY: True}, isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _open_engine(url: str) -> Engine:
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        folder = Path(str(parsed.database)).parent
        if not folder.is_dir():
            raise MarketDatabaseError(f"folder {folder} does not exist; create it or correct the database URL")
        _create_private_file(Path(str(parsed.database)))
        options: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS}}
    else:
        options = {"pool_pre_ping": True}
    try:
        # hide_parameters: what users typed must not end up in a log as part of an error message.
        engine = create_engine(parsed, hide_parameters=True, pool_size=CONNECTIONS, max_overflow=CONNECTIONS, **options)
    except ModuleNotFoundError as error:
        hint = Hint("install_extra", extra="postgres")
        raise MarketDatabaseError("the PostgreSQL driver is not installed", hint=hint) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "handle_error", _corrupt_file_error, retval=True)
    else:
        event.listen(engine, "begin", _begin_postgresql)
    return engine


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        name = parsed.get_backend_name()
    except ArgumentError as error:
        raise MarketDatabaseError(f"the database URL is invalid; {URL_EXAMPLES}") from error
    if name in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if name != "sqlite":
        raise MarketDatabaseError(f"{name} databases are not supported; {URL_EXAMPLES}")
    if not parsed.database or parsed.database == ":memory:":
        raise MarketDatabaseError(f"an in-memory database would be lost with its process; {URL_EXAMPLES}")
    return parsed.set(drivername="sqlite+pysqlite")


def _create_private_file(file: Path) -> None:
    """Create a missing file readable by its owner only: it will contain requesters' access keys."""
    # SQLite itself reports a file that cannot be created. It gives its log the same mode.
    with suppress(OSError):
        file.touch(mode=0o600, exist_ok=False)


def _configure_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL, not NORMAL: a power cut must not undo a payment that was confirmed to a requester.
    connection.execute("PRAGMA synchronous = FULL")


def _corrupt_file_error(context: ExceptionContext) -> BaseException | None:
    """Return our error for a file that is not a valid SQLite database; None keeps every other error."""
    name = getattr(context.original_exception, "sqlite_errorname", "")
    if not name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return None
    file = context.engine.url.database if context.engine else "the file"
    return MarketDatabaseError(
        f"{file} is corrupt or not a SQLite database; restore a backup of it, or choose another database"
    )


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock at the start: a reader that becomes a writer later fails instead of waiting."""
    reads = connection.get_execution_options().get(READ_ONLY)
    connection.exec_driver_sql("BEGIN DEFERRED" if reads else "BEGIN IMMEDIATE")


def _begin_postgresql(connection: Connection) -> None:
    """Serialize writers as SQLite does, so that both databases behave alike and nothing deadlocks."""
    if not connection.get_execution_options().get(READ_ONLY):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")


def _create_tables(engine: Engine) -> None:
    # One transaction that holds the write lock: if two processes start at once, one of them creates the tables.
    with engine.begin() as connection:
        tables = set(inspect(connection).get_table_names())
        ours = Release.__tablename__ in tables
        if tables and not ours:
            raise MarketDatabaseError("this database belongs to another application; use a separate one")
        version = connection.execute(select(Release.version)).scalar_one() if ours else SCHEMA_VERSION
        if not OLDEST_SCHEMA_VERSION <= version <= SCHEMA_VERSION:
            raise MarketDatabaseError(
                f"this database has schema version {version}, this program version {SCHEMA_VERSION}; "
                "use the program that created it, or another database"
            )
        Base.metadata.create_all(connection)
        if not ours:
            connection.execute(insert(Release).values(version=SCHEMA_VERSION))
        elif version < SCHEMA_VERSION:
            connection.execute(update(Release).values(version=SCHEMA_VERSION))
    if engine.dialect.name == "sqlite":
        _enable_wal(engine)


def _enable_wal(engine: Engine) -> None:
    connection = engine.raw_connection()
    deadline = time.monotonic() + BUSY_SECONDS
    try:
        while True:
            try:
                mode = connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                # The busy timeout does not apply when two processes switch a new file at the same moment.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            if mode != "wal":
                raise MarketDatabaseError("SQLite cannot use a write-ahead log here; put the database on a local disk")
            return
    finally:
        connection.close()
