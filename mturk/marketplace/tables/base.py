"""The base of all tables, column types that behave the same on SQLite and PostgreSQL, and the ids of rows."""

import enum
import hashlib
import secrets
import string
from datetime import datetime
from typing import Any, ClassVar, dataclass_transform

from sqlalchemy import JSON, BigInteger, Enum, Integer, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

from common.database import UtcTime

ID_ALPHABET = string.ascii_uppercase + string.digits

# SQLite generates numbers only for a column of type INTEGER.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


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
        datetime: UtcTime,
        dict[str, Any]: JSON,
        list[Any]: JSON,
        enum.Enum: Enum(enum.Enum, native_enum=False, length=40, values_callable=_values, validate_strings=True),
    }

    # No contents: what users typed must not end up in a log through a repr.
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'id', '')}>"


class NumberedRow(MappedAsDataclass, kw_only=True, eq=False, repr=False):
    """A row with a number; numbers grow in the order of creation."""

    number: Mapped[int] = mapped_column(RowNumber, primary_key=True, init=False, sort_order=-1)


def entity_id() -> str:
    """Return a new id for a HIT, an assignment, a type or a qualification, in MTurk's format."""
    return "3" + _random(29)


def person_id() -> str:
    """Return a new id for a worker or a requester, in MTurk's format."""
    return "A" + _random(13)


def access_key_id() -> str:
    """Return the public part of a new access key."""
    return "AKIA" + _random(16)


def access_secret() -> str:
    """Return the secret part of a new access key."""
    return secrets.token_urlsafe(30)


def hash_token(token: str) -> str:
    """Return the hash to store for a secret; the secret is random and long enough not to be guessed from it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _random(length: int) -> str:
    return "".join(secrets.choice(ID_ALPHABET) for _ in range(length))
