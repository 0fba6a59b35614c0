"""The tables' history: where a database stands in it, and how it is brought up to date.

Alembic runs from the installed package, with no ini file; env.py takes the connection from here. Whoever only looks
needs neither Alembic nor the migrations themselves, which take longer to import than most commands take to run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from round_manager.errors import SchemaError

if TYPE_CHECKING:
    from alembic.config import Config

# Any number will do, as long as nobody else locks by it.
UPGRADE_LOCK = 0x6F7574666F78
HEAD = "head"
FOLDER = Path(__file__).resolve().parent
VERSION_TABLE = "alembic_version"


class SchemaState(StrEnum):
    """How a database's tables relate to this program."""

    EMPTY = "empty"
    CURRENT = "current"
    BEHIND = "behind"
    NEWER = "newer"
    FOREIGN = "foreign"


ADVICE = {
    SchemaState.EMPTY: "the database has no tables yet; run `outfox db upgrade`",
    SchemaState.BEHIND: "the database is of an older version ({found}); back it up, then run `outfox db upgrade`",
    SchemaState.NEWER: "the database is of a newer version ({found}) than this program; install the newer Outfox",
    SchemaState.FOREIGN: "the database belongs to something else; give Outfox a database of its own",
}


@dataclass(frozen=True)
class Schema:
    """What was found, what this program wants, and how they relate."""

    state: SchemaState
    found: str | None
    wanted: str

    def require_current(self) -> None:
        """Raise the advice unless the tables fit."""
        if self.state is not SchemaState.CURRENT:
            raise SchemaError(ADVICE[self.state].format(found=self.found))


def configuration(connection: Connection | None = None, folder: Path = FOLDER) -> "Config":
    """Alembic's configuration, for one open connection if it is to do something."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def check(engine: Engine) -> Schema:
    """Where the database stands."""
    with engine.connect() as connection:
        return _look(connection)


def upgrade(engine: Engine) -> Schema:
    """Bring the tables up to date, all or nothing; a second process waits and then finds nothing to do."""
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
    """Go back to an earlier revision, or to `base`; what the later ones held is lost."""
    from alembic import command

    with _exclusive(engine) as connection:
        command.downgrade(configuration(connection), revision)


def draft(engine: Engine, message: str, folder: Path = FOLDER) -> Path:
    """A new migration file with what the models have and the database lacks, for a developer to finish by hand."""
    from alembic import command
    from alembic.script import Script, ScriptDirectory

    # Imported here: running the history needs no models.
    from round_manager.models import Table

    with engine.connect() as connection:
        config = configuration(connection, folder)
        config.attributes["models"] = Table.metadata
        number = max(int(one.revision) for one in ScriptDirectory.from_config(config).walk_revisions()) + 1
        made = command.revision(config, message, autogenerate=True, rev_id=f"{number:04d}")
    if not isinstance(made, Script):
        raise SchemaError("no migration was written; look at what Alembic said")
    return Path(made.path)


@cache
def _history() -> tuple[str, frozenset[str]]:
    """The last revision that this program knows, and all of them: files begin with their numbers."""
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
    """A transaction that no other upgrade runs beside."""
    with engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            with _without_foreign_keys(connection), connection.begin():
                yield connection
                if connection.execute(text("PRAGMA foreign_key_check")).first() is not None:
                    raise SchemaError("the upgrade would leave rows that point nowhere; restore a backup")
        else:
            with connection.begin():
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
                yield connection


@contextmanager
def _without_foreign_keys(connection: Connection) -> Iterator[None]:
    """SQLite changes a table by building it anew, which its foreign keys would not survive."""
    # By the driver's own cursor, before a transaction begins: inside one the setting is silently ignored.
    cursor = connection.connection.cursor()
    cursor.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        cursor.execute("PRAGMA foreign_keys = ON")
