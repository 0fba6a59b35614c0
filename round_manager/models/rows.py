"""Single rows, written without SQLAlchemy's unit of work, which costs more than the statement itself."""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import insert, inspect
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from round_manager.models.table import Numbered, table_of


def insert_row(session: Session, row: Numbered) -> None:
    """Insert a new row and set its id; the row does not become part of the session."""
    statement, columns = _insert(type(row))
    values = {name: read(row) for name, read in columns.items()}
    row.id = session.connection().execute(statement, values).scalar_one()


@cache
def _insert(kind: type[Numbered]) -> tuple[ReturningInsert[int], Mapping[str, Callable[[Numbered], Any]]]:
    attributes = inspect(kind).column_attrs
    columns = {one.columns[0].name: attrgetter(one.key) for one in attributes if one.key != "id"}
    table = table_of(kind)
    return insert(table).returning(table.c.id), columns
