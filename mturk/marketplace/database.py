"""Open the marketplace's database, SQLite or PostgreSQL, and create its tables."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, Engine, event, insert, inspect, select, update
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError

from common import database
from common.database_engine import DatabaseLimits, limited_engine
from common.database_probe import DatabaseProbe
from common.errors import Hint
from mturk.marketplace.errors import MarketBusy, MarketDatabaseError, MarketUnavailable
from mturk.marketplace.tables.base import Base
from mturk.marketplace.tables.people import Release

SCHEMA_VERSION = 3
# Later versions only added tables, so a database of this version is upgraded by creating the missing ones.
OLDEST_SCHEMA_VERSION = 1
# Errors of the server, the network or the disk, not of a statement.
UNAVAILABLE = (OperationalError, InterfaceError, InternalError)
# A row that every database has, written as it was.
TOUCH = update(Release).values(version=Release.version)
LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED", "40001", "40P01", "55P03")
# An arbitrary number, the same in every process: the advisory lock that all writers on PostgreSQL take.
WRITER_LOCK = 0x4F55544D


def open_database(url: str, limits: DatabaseLimits | None = None) -> Engine:
    """Return an engine for a database URL, with all tables created; refuse another application's database."""
    engine = open_engine(url, limits or DatabaseLimits())
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


def open_engine(url: str, limits: DatabaseLimits) -> Engine:
    """Return an engine for a database URL; it does not connect yet."""
    parsed = database.parse_url(url, name="marketplace", error=MarketDatabaseError)
    if parsed.get_backend_name() == "sqlite":
        file = Path(str(parsed.database))
        database.require_folder(file, MarketDatabaseError)
        database.make_private(file)
    try:
        engine = limited_engine(parsed, limits, MarketBusy)
    except ModuleNotFoundError as error:
        hint = Hint("install_extra", extra="postgres")
        raise MarketDatabaseError("the PostgreSQL driver is not installed", hint=hint) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", database.set_up_sqlite)
        event.listen(engine, "begin", database.begin_sqlite)
    else:
        event.listen(engine, "begin", _begin_postgresql)
    event.listen(engine, "handle_error", _translate, retval=True)
    return engine


def _translate(context: ExceptionContext) -> BaseException | None:
    """Return our error for a database that cannot be used; None keeps an error of the program."""
    original = context.original_exception
    if context.is_pre_ping:
        # The pool is checking whether a connection is alive; it opens another one if not.
        return None
    if getattr(original, "sqlite_errorname", "").startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        file = context.engine.url.database if context.engine else "the file"
        return MarketDatabaseError(
            f"{file} is corrupt or not a SQLite database; restore a backup of it, or choose another database"
        )
    if not isinstance(context.sqlalchemy_exception, UNAVAILABLE):
        return None
    if getattr(original, "sqlite_errorname", "").startswith(LOCKED) or getattr(original, "sqlstate", "") in LOCKED:
        return MarketBusy("the database is locked by another process")
    # Only the first line: the others can contain a row.
    reason = (str(original).strip() or type(original).__name__).splitlines()[0]
    return MarketUnavailable(f"the database cannot be used ({reason}); correct the URL or start the database server")


class MarketProbe:
    """Checks that the database of an engine can be read and written."""

    def __init__(self, engine: Engine) -> None:
        self._probe = DatabaseProbe(engine.url, open_engine, MarketBusy)

    def run(self) -> Mapping[str, object]:
        """Return the version of the tables, after an actual write; raise an error if that fails."""
        return {"version": self._probe.run(_schema_version, TOUCH)}

    def close(self) -> None:
        """Close its connection."""
        self._probe.close()


def _schema_version(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(Release.version)).scalar_one()


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
