"""Rehearsals: what would happen, refusals included, and then it has not."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from round_manager.database.store import Store


class _Undone(Exception):
    """Ends a rehearsal."""


@contextmanager
def rehearsal(store: Store) -> Iterator[Session]:
    """A transaction that is undone at its end, whatever was done in it; a refusal in it is raised as ever."""
    try:
        with store.write() as session:
            yield session
            raise _Undone
    except _Undone:
        return
