"""The base of all tables: names of constraints, column types by annotation, and typed constructors."""

import enum
import uuid
from datetime import datetime
from typing import Any, ClassVar, dataclass_transform

from sqlalchemy import BigInteger, Double, Enum, Index, MetaData, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

from round_manager.database.columns import Id, Json, LimitedText, UtcTime

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
        datetime: UtcTime,
        uuid.UUID: Uuid,
        dict[str, Any]: Json,
        # The database checks the values; see checks.one_of.
        enum.Enum: Enum(enum.Enum, native_enum=False, length=20, values_callable=_values, validate_strings=True),
    }

    # Without contents: text that people typed must not reach a log through a repr.
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'id', '')}>"


class Numbered(MappedAsDataclass, kw_only=True, eq=False, repr=False):
    """A table with generated ids, which never leave the system."""

    id: Mapped[int] = mapped_column(Id, primary_key=True, init=False, sort_order=-1)


def index(name: str, *columns: str, where: str | None = None, unique: bool = False) -> Index:
    """Return a named index; with `where`, a partial one.

    SQLite uses a partial index only for a query with the same condition in its WHERE clause.
    """
    if where is None:
        return Index(name, *columns, unique=unique)
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))
