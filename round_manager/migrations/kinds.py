"""The column types of the migrations, apart from the models' so that history stays as it was."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
CENTS = sa.BigInteger()
TEXT = sa.Text()
WORD = sa.String(20)
UTC = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def index(name: str, table: str, columns: list[str], *, where: str | None = None, unique: bool = False) -> None:
    """Make an index; with `where`, over those rows only."""
    rows = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=rows, postgresql_where=rows)
