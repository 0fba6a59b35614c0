"""Real databases for tests: SQLite files, and databases of one PostgreSQL server."""

import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from sqlalchemy import NullPool, create_engine, make_url, text

from round_manager.database.store import Store, open_store
from round_manager.models import Table


class Databases(Protocol):
    """Makes databases of one kind."""

    def empty(self) -> str:
        """The URL of a new, empty database."""
        ...

    def migrated(self) -> str:
        """The URL of a new database with the tables and no rows."""
        ...

    def lay_tables(self, url: str) -> None:
        """Create the tables in an empty database, faster than an upgrade does."""
        ...

    def copy(self, url: str, to: str) -> None:
        """Copy a database that is not in use over an empty one."""
        ...

    def drop(self, url: str) -> None:
        """Remove a database."""
        ...

    def opened(self) -> AbstractContextManager[Store]:
        """Return a store with the tables and no rows, in the fastest way available."""
        ...


class CopiedDatabases(ABC):
    """Databases with tables are copies of one that was upgraded once."""

    _template: str | None = None

    @abstractmethod
    def empty(self) -> str:
        """The URL of a new, empty database."""

    @abstractmethod
    def copy(self, url: str, to: str) -> None:
        """Replace one database with a copy of another; the replaced one need not exist yet."""

    @abstractmethod
    def _new_url(self) -> str:
        """Return the URL of a database that does not exist yet."""

    def migrated(self) -> str:
        """A new copy."""
        url = self._new_url()
        self.lay_tables(url)
        return url

    def lay_tables(self, url: str) -> None:
        """A copy in that place."""
        if self._template is None:
            self._template = self.empty()
            open_store(self._template, upgrade=True).close()
        self.copy(self._template, url)


class SqliteDatabases(CopiedDatabases):
    """Files in one folder; stores are reused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: list[Store] = []

    def empty(self) -> str:
        """Return the URL of a file that does not exist yet."""
        return self._new_url()

    def copy(self, url: str, to: str) -> None:
        """Copy the file, into a new folder if need be."""
        _file(to).parent.mkdir(exist_ok=True)
        shutil.copyfile(_file(url), _file(to))

    def drop(self, url: str) -> None:
        """Remove the file."""
        _file(url).unlink(missing_ok=True)

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """A store on a fresh copy; reused so that SQLAlchemy's statement cache stays warm."""
        store = self._idle.pop() if self._idle else open_store(self.migrated())
        yield store
        store.close()
        url = store.engine.url.render_as_string()
        # If the write-ahead log exists, the file is open or its process was killed: do not reuse it.
        if not Path(f"{_file(url)}-wal").exists():
            self.lay_tables(url)
            self._idle.append(store)

    def _new_url(self) -> str:
        return f"sqlite:///{self._folder / uuid4().hex}.db"


class PostgresqlDatabases(CopiedDatabases):
    """Databases of one server; stores stay open and are emptied and reused, which is faster than a copy."""

    def __init__(self, uri: str) -> None:
        self._uri = make_url(uri).set(drivername="postgresql+psycopg")
        self._idle: list[Store] = []
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            self._run(f"ALTER SYSTEM SET {setting} = off")
        self._run("SELECT pg_reload_conf()")

    def empty(self) -> str:
        """A new database."""
        url = self._new_url()
        self._run(f"CREATE DATABASE {make_url(url).database}")
        return url

    def copy(self, url: str, to: str) -> None:
        """Recreate the database from the other one's files."""
        self._run(f"DROP DATABASE IF EXISTS {make_url(to).database} WITH (FORCE)")
        # Nothing here has to survive a crash, so the files can bypass the write-ahead log.
        self._run(f"CREATE DATABASE {make_url(to).database} TEMPLATE {make_url(url).database} STRATEGY file_copy")

    def drop(self, url: str) -> None:
        """Remove the database."""
        self._run(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """An unused database, emptied; reused so that SQLAlchemy's statement cache stays warm."""
        store = self._idle.pop() if self._idle else open_store(self.migrated())
        _empty(store)
        yield store
        self._idle.append(store)

    def close(self) -> None:
        """Give the connections back."""
        for store in self._idle:
            store.close()

    def _new_url(self) -> str:
        return self._uri.set(database=f"t{uuid4().hex}").render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        engine = create_engine(self._uri, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(statement))


class StoppablePostgresql(PostgresqlDatabases):
    """Databases of a server of their own, which can be stopped for a while."""

    def __init__(self, uri: str, pid: int) -> None:
        super().__init__(uri)
        self._pid = pid

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop every process of the server: their connections stay open, and nothing answers."""
        # The main process first, so that it starts no other.
        os.kill(self._pid, signal.SIGSTOP)
        command = ["ps", "-ax", "-o", "pid=,ppid="]
        listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        children = [int(pid) for pid, parent in map(str.split, listed) if int(parent) == self._pid]
        try:
            for pid in children:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in (*children, self._pid):
                os.kill(pid, signal.SIGCONT)


def _empty(store: Store) -> None:
    """Removes every row, with triggers and foreign keys off; TRUNCATE would make 150 new files each time."""
    names = list(Table.metadata.tables)
    counted = [name for name, table in Table.metadata.tables.items() if "id" in table.columns]
    with store.engine.begin() as connection:
        # A failed test may have left a connection open: better an error than a run that never ends.
        connection.execute(text("SET LOCAL lock_timeout = '30s'; SET LOCAL session_replication_role = replica"))
        connection.execute(text("; ".join(f"DELETE FROM {name}" for name in names)))
        # ALTER SEQUENCE would make a new file for each, too.
        connection.execute(text("SELECT " + ", ".join(f"setval('{name}_id_seq', 1, false)" for name in counted)))


def _file(url: str) -> Path:
    return Path(str(make_url(url).database))
