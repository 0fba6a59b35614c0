"""Opening the marketplace's database: which URLs are taken, and how SQLite and PostgreSQL are set up."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError

from mturk.marketplace.errors import MarketDatabaseError

BUSY_SECONDS = 30
READS = "market_reads"
CONNECTIONS = 16
CURE = "write sqlite:///folder/marketplace.db or postgresql://user@host/database"
# Any number, the same in every process: it names the lock that all writers on PostgreSQL wait for.
WRITERS = 0x4F55544D


def open_engine(url: str) -> Engine:
    """An engine for a database URL; a SQLite file is made where there is none."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        folder = Path(str(parsed.database)).parent
        if not folder.is_dir():
            raise MarketDatabaseError(f"there is no folder {folder} for the database; make it or correct the URL")
        _make_private(Path(str(parsed.database)))
        options: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS}}
    else:
        options = {"pool_pre_ping": True}
    try:
        # hide_parameters: what people typed must not reach a log with an error's text.
        engine = create_engine(parsed, hide_parameters=True, pool_size=CONNECTIONS, max_overflow=CONNECTIONS, **options)
    except ModuleNotFoundError as error:
        raise MarketDatabaseError('PostgreSQL needs its driver; run `pip install "outfox[postgres]"`') from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "handle_error", _damage, retval=True)
    else:
        event.listen(engine, "begin", _begin_postgresql)
    return engine


def reading(engine: Engine) -> Engine:
    """The same engine for transactions that see one moment and wait for nobody."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{READS: True})
    return engine.execution_options(**{READS: True}, isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _make_private(file: Path) -> None:
    """Where there is no file yet, makes one that nobody else can read: it holds the keys of requesters."""
    # What SQLite cannot open or write either, it tells in its own words. Its log gets the same mode by itself.
    with suppress(OSError):
        file.touch(mode=0o600, exist_ok=False)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        name = parsed.get_backend_name()
    except ArgumentError as error:
        raise MarketDatabaseError(f"the database URL cannot be read; {CURE}") from error
    if name in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if name != "sqlite":
        raise MarketDatabaseError(f"databases of kind {name} are not supported; {CURE}")
    if not parsed.database or parsed.database == ":memory:":
        raise MarketDatabaseError(f"a marketplace in memory is lost with its process; {CURE}")
    return parsed.set(drivername="sqlite+pysqlite")


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL, not NORMAL: a power cut must not undo a payment that a requester was told of.
    connection.execute("PRAGMA synchronous = FULL")


def _damage(context: ExceptionContext) -> BaseException | None:
    """Our error for a file that is none of SQLite's, with its name; None leaves every other one as it is."""
    name = getattr(context.original_exception, "sqlite_errorname", "")
    if not name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return None
    file = context.engine.url.database if context.engine else "the file"
    cure = "restore a backup of it, or give the marketplace another database"
    return MarketDatabaseError(f"{file} is damaged or no SQLite database; {cure}")


def _begin_sqlite(connection: Connection) -> None:
    """Writers take the one write lock at once: a reader that becomes a writer later fails instead of waiting."""
    reads = connection.get_execution_options().get(READS)
    connection.exec_driver_sql("BEGIN DEFERRED" if reads else "BEGIN IMMEDIATE")


def _begin_postgresql(connection: Connection) -> None:
    """Writers come one after the other, as in SQLite: what holds there holds here, and nothing deadlocks."""
    if not connection.get_execution_options().get(READS):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITERS})")
