"""Check constraints that work on both SQLite and PostgreSQL.

Times are compared only if one process read both at the same moment: clocks of different machines differ, and a payment
must not be refused for that.
"""

import enum

from sqlalchemy import CheckConstraint

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
