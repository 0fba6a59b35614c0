"""Column types that mean the same on SQLite and PostgreSQL."""

import enum
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, dataclass_transform

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Enum, Integer, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, MappedAsDataclass, mapped_column
from sqlalchemy.types import TypeDecorator, TypeEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

# SQLite numbers rows by itself only in a column that is called INTEGER.
Number = BigInteger().with_variant(Integer(), "sqlite")


class Moment(TypeDecorator[datetime]):
    """An aware time in UTC; SQLite has no such type and holds microseconds since 1970."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """What the database really has."""
        return dialect.type_descriptor(BigInteger() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuse a time without a zone: it would be stored as another time."""
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError(f"{value!r} has no time zone")
        return (value - EPOCH) // MICROSECOND if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Always aware, always UTC."""
        if value is None:
            return None
        if isinstance(value, int):
            return EPOCH + value * MICROSECOND
        aware: datetime = value.astimezone(UTC)
        return aware


def _values(choices: type[enum.Enum]) -> list[str]:
    return [str(choice.value) for choice in choices]


@dataclass_transform(kw_only_default=True, field_specifiers=(mapped_column,))
class Base(MappedAsDataclass, DeclarativeBase, kw_only=True, eq=False, repr=False):
    """A row of one table; every column without a default is a required keyword of its constructor."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        int: BigInteger,
        str: Text,
        datetime: Moment,
        dict[str, Any]: JSON,
        list[Any]: JSON,
        enum.Enum: Enum(enum.Enum, native_enum=False, length=40, values_callable=_values, validate_strings=True),
    }

    # No contents: what people typed must not reach a log by way of a repr.
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'id', '')}>"
