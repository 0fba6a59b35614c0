"""Column types that behave alike on SQLite and PostgreSQL and reject what only one of them would accept."""

import json
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, BigInteger, ColumnElement, Dialect, Integer, SQLColumnExpression, Text, literal
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.types import TypeDecorator

from common import database
from common.messages import gettext
from round_manager.errors import BadValueError

# JSON that is written close to the recursion limit could not be read back where the stack is already deeper.
MAX_JSON_DEPTH = 100
TOO_DEEP = gettext("the value is nested more than %(most)s levels deep", most=MAX_JSON_DEPTH)

# SQLite generates row ids only for columns of type INTEGER, which hold 64 bits there as well.
Id = BigInteger().with_variant(Integer(), "sqlite")

# JSONB does not preserve the order of keys: read values by name, and hash the canonical form.
Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class CheckedTime(database.UtcTime):
    """A time in UTC to the microsecond; one without a time zone is a BadValueError."""

    cache_ok = True
    refusal = BadValueError


class Cents(TypeDecorator[int]):
    """Whole cents. PostgreSQL would silently round a float, so floats are rejected before they get there."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """Reject everything but integers."""
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise BadValueError(f"{value!r} is not a whole number of cents")
        return value


class LimitedText(TypeDecorator[str]):
    """Text with a maximum length, without NUL and lone surrogates, which only one of the databases would reject."""

    impl = Text
    cache_ok = True

    def __init__(self, max_length: int | None = None) -> None:
        super().__init__()
        self.max_length = max_length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Reject text that is too long or that one of the databases cannot store."""
        if value is None:
            return None
        if self.max_length is not None and len(value) > self.max_length:
            raise BadValueError(f"the text has {len(value)} characters; the maximum is {self.max_length}")
        _check_text(value)
        return value


def public_id(now: datetime) -> UUID:
    """Return a new id for use outside the system: a UUID version 7 (RFC 9562), sortable by time and not guessable."""
    if now.utcoffset() is None:
        raise BadValueError("the time of an id must be timezone-aware")
    milliseconds = (now - database.EPOCH) // timedelta(milliseconds=1)
    value = (milliseconds & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def equals_unindexed(
    column: InstrumentedAttribute[Any] | ColumnElement[Any], value: int | SQLColumnExpression[Any]
) -> ColumnElement[Any]:
    """Return the condition `column = value` in a form that does not use an index on the column.

    SQLite keeps no statistics here and might otherwise scan a whole round instead of using a more selective index.
    """
    return (column + 0) == value


def is_in(column: Any, values: Iterable[Any]) -> ColumnElement[bool]:
    """Return the condition `column IN (values)` for a statement that is built once and run often.

    SQLAlchemy's own form writes the list into the SQL each time, because the next list may be longer.
    """
    found: ColumnElement[bool] = column.in_([literal(value, column.type) for value in values])
    return found


def json_text(value: Any) -> str:
    """Return the canonical JSON of a value: sorted keys, no NaN, nothing that PostgreSQL rejects."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except RecursionError as error:
        raise BadValueError(TOO_DEEP) from error
    except (TypeError, ValueError) as error:
        raise BadValueError(f"the value is not valid JSON: {error}") from error
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH:
        _check_depth(value)
    # NUL is written as an escape, and so is a backslash that a user typed: only then is a closer look needed.
    if "\\u0000" in text:
        _check_nested_text(value)
    _check_text(text)
    return text


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        containers = [one for one in level if isinstance(one, dict | list | tuple)]
        level = [part for one in containers for part in (one.values() if isinstance(one, dict) else one)]
    if level:
        raise BadValueError(TOO_DEEP)


def _check_text(value: str) -> None:
    if "\x00" in value:
        raise BadValueError(gettext("the text contains the character NUL, which cannot be stored"))
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValueError(gettext("the text contains half of a character (a lone surrogate)")) from error


def _check_nested_text(value: Any) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            _check_text(str(key))
            _check_nested_text(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _check_nested_text(part)
