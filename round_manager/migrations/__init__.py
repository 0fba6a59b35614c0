"""Migrations: which revision a database has, and how it is upgraded.

Alembic runs from the installed package without an ini file; env.py takes the connection from here. Checking a database
imports neither Alembic nor the migrations, which would take longer than most commands take to run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from common.errors import Hint
from round_manager.errors import SchemaError

if TYPE_CHECKING:
    from alembic.config import Config

# An arbitrary number that no other program uses for a lock.
UPGRADE_LOCK = 0x6F7574666F78
HEAD = "head"
FOLDER = Path(__file__).resolve().parent
VERSION_TABLE = "alembic_version"


class SchemaState(StrEnum):
    """How the tables of a database relate to this version."""

    EMPTY = "empty"
    CURRENT = "current"
    BEHIND = "behind"
    NEWER = "newer"
    FOREIGN = "foreign"


MESSAGES = {
    SchemaState.EMPTY: "the database has no tables yet",
    SchemaState.BEHIND: "the database has an older schema ({found}); back it up, then upgrade it",
    SchemaState.NEWER: "the database has a newer schema ({found}) than this version supports; install a newer Outfox",
    SchemaState.FOREIGN: "the database belongs to another program; use a separate database for Outfox",
}


@dataclass(frozen=True)
class Schema:
    """The revision of a database, the revision that this version needs, and how they relate."""

    state: SchemaState
    found: str | None
    wanted: str

    def require_current(self) -> None:
        """Raise SchemaError unless the tables match."""
        if self.state is not SchemaState.CURRENT:
            upgradable = self.state in (SchemaState.EMPTY, SchemaState.BEHIND)
            hint = Hint("upgrade_database") if upgradable else None
            raise SchemaError(MESSAGES[self.state].format(found=self.found), hint=hint)


def configuration(connection: Connection | None = None, folder: Path = FOLDER) -> "Config":
    """Return Alembic's configuration, for one open connection if it is to run anything."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def check(engine: Engine) -> Schema:
    """Return the state of the database's tables."""
    with engine.connect() as connection:
        return _look(connection)


def upgrade(engine: Engine) -> Schema:
    """Migrate the tables in one transaction; a second process waits and then has nothing to do."""
    from alembic import command

    schema = check(engine)
    if schema.state in (SchemaState.EMPTY, SchemaState.BEHIND):
        with _exclusive(engine) as connection:
            if _look(connection).state in (SchemaState.EMPTY, SchemaState.BEHIND):
                command.upgrade(configuration(connection), HEAD)
            schema = _look(connection)
    schema.require_current()
    return schema


def downgrade(engine: Engine, revision: str) -> None:
    """Go back to an earlier revision or to `base`; data of the later revisions is lost."""
    from alembic import command

    with _exclusive(engine) as connection:
        command.downgrade(configuration(connection), revision)


def draft(engine: Engine, message: str, folder: Path = FOLDER) -> Path:
    """Write a new migration from the difference between models and database, for a developer to complete."""
    from alembic import command
    from alembic.script import Script, ScriptDirectory

    # Imported here: running migrations does not need the models.
    from round_manager.models import Table

    with engine.connect() as connection:
        config = configuration(connection, folder)
        config.attributes["models"] = Table.metadata
        number = max(int(one.revision) for one in ScriptDirectory.from_config(config).walk_revisions()) + 1
        made = command.revision(config, message, autogenerate=True, rev_id=f"{number:04d}")
    if not isinstance(made, Script):
        raise SchemaError("Alembic wrote no migration; see its output")
    return Path(made.path)


@cache
def _history() -> tuple[str, frozenset[str]]:
    """Return the latest revision and all revisions that this version knows, from the file names."""
    known = frozenset(file.name.partition("_")[0] for file in (FOLDER / "versions").glob("[0-9]*_*.py"))
    return max(known), known


def _look(connection: Connection) -> Schema:
    wanted, known = _history()
    tables = set(inspect(connection).get_table_names())
    found = connection.scalar(text("SELECT version_num FROM alembic_version")) if VERSION_TABLE in tables else None
    if found == wanted:
        state = SchemaState.CURRENT
    elif found is not None:
        state = SchemaState.BEHIND if found in known else SchemaState.NEWER
    else:
        state = SchemaState.FOREIGN if tables - {VERSION_TABLE} else SchemaState.EMPTY
    return Schema(state, found, wanted)


@contextmanager
def _exclusive(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that excludes other upgrades."""
    with engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            with _without_foreign_keys(connection), connection.begin():
                yield connection
                if connection.execute(text("PRAGMA foreign_key_check")).first() is not None:
                    raise SchemaError("the upgrade would leave rows with broken references; restore a backup")
        else:
            with connection.begin():
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
                yield connection


@contextmanager
def _without_foreign_keys(connection: Connection) -> Iterator[None]:
    """Turn foreign keys off: SQLite changes a table by rebuilding it, which would break them."""
    # Through the driver, before a transaction begins: inside one, SQLite silently ignores the setting.
    cursor = connection.connection.cursor()
    cursor.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        cursor.execute("PRAGMA foreign_keys = ON")
