"""The market: one database, opened, checked, and used in transactions that know what time it is."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from sqlalchemy import Engine, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from mturk.marketplace.columns import Base
from mturk.marketplace.engine import BUSY_SECONDS, open_engine, reading
from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.tables import Release
from mturk.marketplace.upkeep import anything_due, catch_up

VERSION = 2
# Since then, tables were only added: a database of that version is brought along as it is.
OLDEST = 1


def utc_now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


class Market:
    """One marketplace's database; make it with open_market."""

    def __init__(self, engine: Engine, now: Callable[[], datetime] = utc_now) -> None:
        self.engine = engine
        self.now = now
        self._reading = reading(engine)
        # Writers of one process queue here: in SQLite's own queue who waits sleeps, longer and longer.
        self._turn = threading.Lock()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction in which all that was due has happened: committed at the end, undone by an error.

        Writers come one after the other: keep it short, and make no call to the outside inside it.
        """
        # expire_on_commit off: what was read stays readable after the block.
        with self._turn, Session(self.engine, expire_on_commit=False) as session, session.begin():
            catch_up(session, self.now())
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One moment, in which all that was due has happened; what is changed in it is undone."""
        with self.glance() as session:
            if not anything_due(session, self.now()):
                yield session
                return
        with self.write():
            pass
        with self.glance() as session:
            yield session

    @contextmanager
    def glance(self) -> Iterator[Session]:
        """One moment as it was left by the last writer, for what no deadline changes."""
        with Session(self._reading, expire_on_commit=False, autoflush=False) as session:
            yield session

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_market(url: str, now: Callable[[], datetime] = utc_now) -> Market:
    """The market behind a URL, its tables made where there are none; a database of somebody else is refused."""
    engine = open_engine(url)
    try:
        _make_tables(engine)
    except DBAPIError as error:
        engine.dispose()
        raise MarketDatabaseError(
            f"the database cannot be opened ({error.orig}); correct the URL or start it"
        ) from error
    except BaseException:
        engine.dispose()
        raise
    return Market(engine, now)


def _make_tables(engine: Engine) -> None:
    # In one transaction that others wait for: of two processes that start at once, one makes the tables.
    with engine.begin() as connection:
        tables = set(inspect(connection).get_table_names())
        ours = Release.__tablename__ in tables
        if tables and not ours:
            raise MarketDatabaseError("this database belongs to something else; give the marketplace one of its own")
        version = connection.execute(select(Release.version)).scalar_one() if ours else VERSION
        if not OLDEST <= version <= VERSION:
            raise MarketDatabaseError(
                f"this marketplace's database is of version {version}, this program of {VERSION}; "
                "use the program that made it, or another database"
            )
        # Also where there are some: those of the worker's site are made by whoever serves it first.
        Base.metadata.create_all(connection)
        if not ours:
            connection.execute(insert(Release).values(version=VERSION))
        elif version < VERSION:
            connection.execute(update(Release).values(version=VERSION))
    if engine.dialect.name == "sqlite":
        _use_wal(engine)


def _use_wal(engine: Engine) -> None:
    connection = engine.raw_connection()
    deadline = time.monotonic() + BUSY_SECONDS
    try:
        while True:
            try:
                mode = connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except Exception as error:
                # The busy timeout does not cover two processes that switch a new file at the same moment.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            if mode != "wal":
                raise MarketDatabaseError("SQLite cannot use its log here; put the database on a local disk")
            return
    finally:
        connection.close()
