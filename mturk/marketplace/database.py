"""Open the marketplace's database, SQLite or PostgreSQL, and create its tables."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, update
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

from common import database
from common.errors import Hint
from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.tables.base import Base
from mturk.marketplace.tables.people import Release

SCHEMA_VERSION = 2
# Later versions only added tables, so a database of this version is upgraded by creating the missing ones.
OLDEST_SCHEMA_VERSION = 1
CONNECTIONS = 16
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


def _open_engine(url: str) -> Engine:
    parsed = database.parse_url(url, name="marketplace", error=MarketDatabaseError)
    if parsed.get_backend_name() == "sqlite":
        file = Path(str(parsed.database))
        database.require_folder(file, MarketDatabaseError)
        database.make_private(file)
        options: dict[str, Any] = {"connect_args": {"timeout": database.BUSY_SECONDS}}
    else:
        options = {"pool_pre_ping": True}
    try:
        # hide_parameters: what users typed must not end up in a log as part of an error message.
        engine = create_engine(parsed, hide_parameters=True, pool_size=CONNECTIONS, max_overflow=CONNECTIONS, **options)
    except ModuleNotFoundError as error:
        hint = Hint("install_extra", extra="postgres")
        raise MarketDatabaseError("the PostgreSQL driver is not installed", hint=hint) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", database.set_up_sqlite)
        event.listen(engine, "begin", database.begin_sqlite)
        event.listen(engine, "handle_error", _corrupt_file_error, retval=True)
    else:
        event.listen(engine, "begin", _begin_postgresql)
    return engine


def _corrupt_file_error(context: ExceptionContext) -> BaseException | None:
    """Return our error for a file that is not a valid SQLite database; None keeps every other error."""
    name = getattr(context.original_exception, "sqlite_errorname", "")
    if not name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return None
    file = context.engine.url.database if context.engine else "the file"
    return MarketDatabaseError(
        f"{file} is corrupt or not a SQLite database; restore a backup of it, or choose another database"
    )


def _begin_postgresql(connection: Connection) -> None:
    """Serialize writers as SQLite does, so that both databases behave alike and nothing deadlocks."""
    if not connection.get_execution_options().get(database.READ_ONLY):
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
        with closing(engine.raw_connection()) as connection:
            database.use_wal(cast("sqlite3.Connection", connection.driver_connection), MarketDatabaseError)
