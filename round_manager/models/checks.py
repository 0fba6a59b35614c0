"""Check constraints, written so that SQLite and PostgreSQL read them alike.

Times are compared only where one process took both at one moment: clocks of different machines differ, and a payment
must not be refused for that.
"""

import enum

from sqlalchemy import CheckConstraint

HEX = "0123456789abcdef"
WORD = "abcdefghijklmnopqrstuvwxyz0123456789_"


def check(name: str, rule: str) -> CheckConstraint:
    """A rule that every row obeys."""
    return CheckConstraint(rule, name=name)


def one_of(column: str, choices: type[enum.Enum]) -> CheckConstraint:
    """The column holds one of the enum's values."""
    values = ", ".join(f"'{choice.value}'" for choice in choices)
    return check(column, f"{column} IN ({values})")


def at_least(least: int, *columns: str) -> list[CheckConstraint]:
    """Each of the columns is empty or at least that."""
    return [check(column, f"{column} >= {least}") for column in columns]


def share(column: str) -> CheckConstraint:
    """The column is a share or a probability, 0 to 1."""
    return check(column, f"{column} >= 0 AND {column} <= 1")


def truth(column: str) -> CheckConstraint:
    """The column is true or false; SQLite knows no booleans."""
    return check(column, f"{column} IN (true, false)")


def whole_cents(*columns: str) -> list[CheckConstraint]:
    """Each of the columns is a whole number and not negative; SQLite would keep a fraction."""
    return [check(column, f"{column} >= 0 AND {column} = CAST({column} AS BIGINT)") for column in columns]


def sha256(*columns: str) -> list[CheckConstraint]:
    """Each of the columns is 64 lower-case hexadecimal digits."""
    return [check(column, f"length({column}) = 64 AND trim({column}, '{HEX}') = ''") for column in columns]


def filled(*columns: str) -> list[CheckConstraint]:
    """Each of the columns has more than spaces in it."""
    return [check(column, f"trim({column}) <> ''") for column in columns]


def together(name: str, condition: str, column: str) -> CheckConstraint:
    """The column is filled just when the condition holds."""
    return check(name, f"({condition}) = ({column} IS NOT NULL)")


def exactly_one(name: str, *columns: str) -> CheckConstraint:
    """One of the columns is filled, and only one."""
    filled_columns = " + ".join(f"CASE WHEN {column} IS NULL THEN 0 ELSE 1 END" for column in columns)
    return check(name, f"{filled_columns} = 1")
