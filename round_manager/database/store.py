"""The store: one database, opened, checked and used in transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from round_manager import migrations
from round_manager.database.engine import open_engine, reading
from round_manager.migrations import Schema


class Store:
    """One database; make it with open_store."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._reading = reading(engine)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed at the end of the block, undone by an error.

        In SQLite it holds the one write lock from its first statement: keep it short, and make no call to the
        outside inside it.
        """
        # expire_on_commit off: what was read stays readable after the block.
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction that sees one moment and cannot change anything."""
        with Session(self._reading, expire_on_commit=False, autoflush=False) as session, session.begin():
            yield session

    def check(self) -> Schema:
        """Whether the tables fit this program."""
        return migrations.check(self._reading)

    def upgrade(self) -> Schema:
        """Make or bring up to date the tables; safe when two processes do it at once."""
        return migrations.upgrade(self.engine)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(url: str, *, upgrade: bool = False) -> Store:
    """The store behind a URL, with tables that fit: brought up to date if asked, else refused with advice."""
    store = Store(open_engine(url, create=upgrade))
    try:
        schema = store.upgrade() if upgrade else store.check()
        schema.require_current()
    except BaseException:
        store.close()
        raise
    return store
