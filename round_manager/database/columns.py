"""Column types that mean the same on SQLite and PostgreSQL, and refuse what only one of them would take."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator, TypeEngine

from round_manager.errors import BadValueError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# What is written here near the end of the stack could not be read where the stack is deeper.
DEEPEST = 100
TOO_DEEP = f"it has more than {DEEPEST} brackets inside each other; use fewer"

# SQLite numbers rows by itself only in a column that is called INTEGER; it holds 64 bits there too.
Id = BigInteger().with_variant(Integer(), "sqlite")

# JSONB keeps no order of keys: read by name, hash a canonical form.
Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class UtcTime(TypeDecorator[datetime]):
    """An aware time in UTC to the microsecond: timestamptz, or in SQLite microseconds since 1970 as an integer."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """What the database really has."""
        return dialect.type_descriptor(BigInteger() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuse a time without a zone."""
        if value is None:
            return None
        if not isinstance(value, datetime) or value.utcoffset() is None:
            raise BadValueError(f"{value!r} is no time with a zone; take it from the clock")
        return (value - EPOCH) // MICROSECOND if dialect.name == "sqlite" else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Always aware, always UTC."""
        if value is None:
            return None
        if isinstance(value, int):
            return EPOCH + value * MICROSECOND
        aware: datetime = value.astimezone(UTC)
        return aware


class Cents(TypeDecorator[int]):
    """Whole cents; PostgreSQL would round a float without a word, so it is refused before it gets there."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """Refuse all but integers."""
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise BadValueError(f"{value!r} is no whole number of cents; compute money in integers")
        return value


class Words(TypeDecorator[str]):
    """Text up to a length; too long, NUL and lone surrogates are refused alike by both databases."""

    impl = Text
    cache_ok = True

    def __init__(self, longest: int | None = None) -> None:
        super().__init__()
        self.longest = longest

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Refuse what one of the databases cannot hold."""
        if value is None:
            return None
        if self.longest is not None and len(value) > self.longest:
            raise BadValueError(f"a text of {len(value)} characters, at most {self.longest} fit; shorten it")
        _check_text(value)
        return value


def json_text(value: Any) -> str:
    """The canonical JSON of a value: keys sorted, no NaN, nothing that PostgreSQL would refuse."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except RecursionError as error:
        raise BadValueError(TOO_DEEP) from error
    except (TypeError, ValueError) as error:
        raise BadValueError(f"this is not JSON ({error}); use strings, finite numbers, lists and dicts") from error
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(value)
    # A NUL is written as an escape, and so is a backslash that somebody typed: only then look closer.
    if "\\u0000" in text:
        _check_nothing_has_nul(value)
    _check_text(text)
    return text


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST + 1):
        holders = [one for one in level if isinstance(one, dict | list | tuple)]
        level = [part for one in holders for part in (one.values() if isinstance(one, dict) else one)]
    if level:
        raise BadValueError(TOO_DEEP)


def _check_text(value: str) -> None:
    if "\x00" in value:
        raise BadValueError("a text has the character NUL, which databases refuse; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValueError("a text has half of a character (a lone surrogate); remove it") from error


def _check_nothing_has_nul(value: Any) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            _check_text(str(key))
            _check_nothing_has_nul(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _check_nothing_has_nul(part)
