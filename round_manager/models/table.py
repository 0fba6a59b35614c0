"""The base of all tables: constraints and their names, column types by annotation, and typed constructors."""

import enum
import uuid
from datetime import datetime
from typing import Any, ClassVar, dataclass_transform

import sqlalchemy
from sqlalchemy import BigInteger, CheckConstraint, Double, Enum, ForeignKeyConstraint, Index, MetaData, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

from round_manager.database.columns import CheckedTime, Id, Json, LimitedText

NAMES = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}


def _values(choices: type[enum.Enum]) -> list[str]:
    return [str(choice.value) for choice in choices]


@dataclass_transform(kw_only_default=True, field_specifiers=(mapped_column,))
class Table(MappedAsDataclass, DeclarativeBase, kw_only=True, eq=False, repr=False):
    """A row of one table; every column without a default is a required keyword of its constructor.

    Relationships are not used: joins are written out, so that no attribute hides a query.
    """

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        int: BigInteger,
        float: Double,
        str: LimitedText,
        datetime: CheckedTime,
        uuid.UUID: Uuid,
        dict[str, Any]: Json,
        # The database checks the values; see one_of.
        enum.Enum: Enum(enum.Enum, native_enum=False, length=20, values_callable=_values, validate_strings=True),
    }

    # Without contents: text that people typed must not reach a log through a repr.
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'id', '')}>"


class Numbered(Table):
    """A table with generated ids, which never leave the system."""

    __abstract__ = True

    id: Mapped[int] = mapped_column(Id, primary_key=True, init=False, sort_order=-1)


def table_of(kind: type[Table]) -> sqlalchemy.Table:
    """Return the table itself; statements on it return plain rows, which cost half as much as objects."""
    return kind.metadata.tables[kind.__tablename__]


def index(name: str, *columns: str, where: str | None = None, unique: bool = False) -> Index:
    """Return a named index; with `where`, a partial one.

    SQLite uses a partial index only for a query with the same condition in its WHERE clause.
    """
    if where is None:
        return Index(name, *columns, unique=unique)
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


def references(**columns: str) -> ForeignKeyConstraint:
    """Return a foreign key from columns of this table to columns of another one, whose row is kept."""
    return ForeignKeyConstraint(list(columns), list(columns.values()), ondelete="RESTRICT")


HEX = "0123456789abcdef"
WORD = "abcdefghijklmnopqrstuvwxyz0123456789_"


def check(name: str, rule: str) -> CheckConstraint:
    """Return a named check constraint."""
    return CheckConstraint(rule, name=name)


def one_of(column: str, choices: type[enum.Enum]) -> CheckConstraint:
    """Require one of the enum's values."""
    values = ", ".join(f"'{choice.value}'" for choice in choices)
    return check(column, f"{column} IN ({values})")


def at_least(least: int, *columns: str) -> list[CheckConstraint]:
    """Require null or a minimum for each column."""
    return [check(column, f"{column} >= {least}") for column in columns]


def share(column: str) -> CheckConstraint:
    """Require a value from 0 to 1."""
    return check(column, f"{column} >= 0 AND {column} <= 1")


def truth(column: str) -> CheckConstraint:
    """Require true or false; SQLite has no boolean type."""
    return check(column, f"{column} IN (true, false)")


def whole_cents(*columns: str) -> list[CheckConstraint]:
    """Require non-negative whole numbers; SQLite would store a fraction."""
    return [check(column, f"{column} >= 0 AND {column} = CAST({column} AS BIGINT)") for column in columns]


def sha256(*columns: str) -> list[CheckConstraint]:
    """Require 64 lower-case hexadecimal digits in each column."""
    return [check(column, f"length({column}) = 64 AND trim({column}, '{HEX}') = ''") for column in columns]


def filled(*columns: str) -> list[CheckConstraint]:
    """Require more than spaces in each column."""
    return [check(column, f"trim({column}) <> ''") for column in columns]


def together(name: str, condition: str, column: str) -> CheckConstraint:
    """Require the column to be set if and only if the condition holds."""
    return check(name, f"({condition}) = ({column} IS NOT NULL)")


def exactly_one(name: str, *columns: str) -> CheckConstraint:
    """Require exactly one of the columns to be set."""
    filled_columns = " + ".join(f"CASE WHEN {column} IS NULL THEN 0 ELSE 1 END" for column in columns)
    return check(name, f"{filled_columns} = 1")
