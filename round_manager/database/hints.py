"""Hints for SQLite, which keeps no statistics and may walk a whole round where a better index is at hand."""

from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.orm import InstrumentedAttribute


def beside_index(column: InstrumentedAttribute[Any], value: int) -> ColumnElement[Any]:
    """The column has the value; the rows are found by the other conditions, not by an index of this column."""
    return (column + 0) == value
