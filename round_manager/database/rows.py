"""Single rows, written without SQLAlchemy's unit of work, which costs more than the statement itself."""

from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Insert, insert, inspect
from sqlalchemy.orm import Session

from round_manager.models.table import Numbered


def insert_row(session: Session, row: Numbered) -> None:
    """Insert a new row and set its id; the row does not become part of the session."""
    statement, columns = _insert(type(row))
    values = {name: read(row) for name, read in columns.items()}
    (row.id,) = session.connection().execute(statement, values).inserted_primary_key or ()


@cache
def _insert(kind: type[Numbered]) -> tuple[Insert, dict[str, Any]]:
    mapper = inspect(kind)
    columns = {one.columns[0].name: attrgetter(one.key) for one in mapper.column_attrs if one.key != "id"}
    return insert(mapper.local_table), columns
