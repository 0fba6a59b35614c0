"""Rows for whole rounds: plain texts and numbers straight from the driver, alike on both databases."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from sqlalchemy import BigInteger, ColumnElement, Select, Text, cast, func, select, type_coerce
from sqlalchemy.orm import InstrumentedAttribute, Session

from round_manager.models import Task, Worker
from round_manager.pseudonyms import pseudonym

# SQLite takes at most 32,766 values in a statement.
MOST_VALUES = 10_000
Column = ColumnElement[Any] | InstrumentedAttribute[Any]


class PlainRows:
    """Reads columns as they are stored: objects for a million rows take longer than all the rest."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sqlite = session.get_bind().dialect.name == "sqlite"

    def fetch(self, statement: Select[*tuple[Any, ...]]) -> list[Any]:
        """The rows as the driver has them; every column must be plain."""
        result = self._session.connection().execute(statement)
        rows = list(result.cursor.fetchall()) if result.cursor else []
        result.close()
        return rows

    def word(self, column: Column) -> Column:
        """A text or one of a few words."""
        return type_coerce(column, Text)

    def hex(self, column: Column) -> Column:
        """An id as 32 hexadecimal digits."""
        return self.word(column) if self._sqlite else func.replace(cast(column, Text), "-", "")

    def json(self, column: Column) -> Column:
        """The text of a JSON value, spaced and sorted as the database likes."""
        return self.word(column) if self._sqlite else cast(column, Text)

    def micros(self, column: Column) -> Column:
        """A time in microseconds since 1970."""
        if self._sqlite:
            return type_coerce(column, BigInteger)
        return cast(func.extract("epoch", column) * 1_000_000, BigInteger)


class Names:
    """What rows of another table are called outside, looked up when they are first met."""

    def __init__(self, look_up: Callable[[Sequence[int]], Iterable[tuple[int, str]]]) -> None:
        self._look_up = look_up
        self._known: dict[int | None, str | None] = {None: None}

    def of(self, ids: Sequence[int | None]) -> list[Any]:
        """The name of each, None for none."""
        new = sorted(one for one in set(ids) if one is not None and one not in self._known)
        for some in chunks(new):
            self._known.update(self._look_up(some))
        known = self._known
        return [known[one] for one in ids]

    def column(self, ids: pa.Array) -> pa.Array:
        """The same for a whole column."""
        met = ids.dictionary_encode()
        return pa.array(self.of(met.dictionary.to_pylist()), pa.string()).take(met.indices)


def pseudonyms(session: Session, task: Task) -> Names:
    """What the task's data calls workers."""

    def look_up(ids: Sequence[int]) -> list[tuple[int, str]]:
        workers = session.scalars(select(Worker).where(Worker.id.in_(ids)))
        return [(worker.id, pseudonym(task, worker)) for worker in workers]

    return Names(look_up)


def chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many as a statement takes, and again."""
    for first in range(0, len(ids), MOST_VALUES):
        yield ids[first : first + MOST_VALUES]
