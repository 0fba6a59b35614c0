"""Real databases for tests: SQLite files, and databases of one PostgreSQL server."""

import shutil
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from sqlalchemy import URL, NullPool, create_engine, make_url, text

from round_manager.database.store import open_store
from round_manager.models import Table


class Databases(Protocol):
    """Makes databases of one kind."""

    def empty(self) -> str:
        """The URL of a new, empty database."""
        ...

    def migrated(self) -> str:
        """The URL of a database with the tables and no rows; only one is in use at a time."""
        ...

    def drop(self, url: str) -> None:
        """Remove a database that `empty` made."""
        ...


class SqliteDatabases:
    """Files in one folder; a migrated one is a copy of the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._migrated: Path | None = None

    def empty(self) -> str:
        """A file that is not there yet."""
        return f"sqlite:///{self._folder / uuid4().hex}.db"

    def migrated(self) -> str:
        """A copy of a file with the tables."""
        if self._migrated is None:
            self._migrated = self._folder / "migrated.db"
            open_store(f"sqlite:///{self._migrated}", upgrade=True).close()
        url = self.empty()
        shutil.copyfile(self._migrated, str(make_url(url).database))
        return url

    def drop(self, url: str) -> None:
        """Remove the file."""
        Path(str(make_url(url).database)).unlink(missing_ok=True)


class PostgresqlDatabases:
    """Databases of one server; the migrated one is emptied and used again, which is faster than a copy."""

    def __init__(self, uri: str) -> None:
        self._uri = make_url(uri).set(drivername="postgresql+psycopg")
        self._migrated: str | None = None
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            self._run(f"ALTER SYSTEM SET {setting} = off")
        self._run("SELECT pg_reload_conf()")

    def empty(self) -> str:
        """A new database."""
        name = f"t{uuid4().hex}"
        self._run(f"CREATE DATABASE {name}")
        return self._uri.set(database=name).render_as_string(hide_password=False)

    def migrated(self) -> str:
        """The one with the tables, emptied."""
        if self._migrated is None:
            self._migrated = self.empty()
            open_store(self._migrated, upgrade=True).close()
        # Without triggers and foreign keys for a moment; TRUNCATE would make 150 new files each time.
        statements = [
            "SET session_replication_role = replica",
            *(f"DELETE FROM {name}" for name in Table.metadata.tables),
        ]
        for name, table in Table.metadata.tables.items():
            if "id" in table.columns:
                statements.append(f"ALTER SEQUENCE {name}_id_seq RESTART")
        self._run("; ".join(statements), make_url(self._migrated))
        return self._migrated

    def drop(self, url: str) -> None:
        """Remove the database."""
        self._run(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def _run(self, statement: str, url: URL | None = None) -> None:
        engine = create_engine(url or self._uri, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(statement))
