"""Names of workers in a task's data: pseudonyms that are stable there and cannot be reversed."""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.hashing import canonical_json
from round_manager.models import Task, Worker

# Commands that read no columns start faster without it.
if TYPE_CHECKING:
    import pyarrow as pa

# SQLite accepts at most 32,766 values in a statement.
MOST_VALUES = 10_000
LENGTH = 16
SIMULATED = "simulated-"


def pseudonym(task: Task, worker: Worker) -> str:
    """Return the worker's pseudonym in one task's data; it is stable there and cannot be reversed.

    That of a simulated worker says so.
    """
    who = canonical_json([worker.marketplace, worker.external_id])
    name = hmac.new(task.worker_salt.encode(), who.encode(), hashlib.sha256).hexdigest()[:LENGTH]
    return f"{SIMULATED}{name}" if worker.simulated else name


class NameLookup:
    """Public names of another table's rows, looked up when they are first needed."""

    def __init__(self, look_up: Callable[[Sequence[int]], Iterable[tuple[int, str]]]) -> None:
        self._look_up = look_up
        self._known: dict[int | None, str | None] = {None: None}

    def of(self, ids: Sequence[int | None]) -> list[Any]:
        """Return the name of each id, None for None."""
        new = sorted(one for one in set(ids) if one is not None and one not in self._known)
        for some in chunks(new):
            self._known.update(self._look_up(some))
        known = self._known
        return [known[one] for one in ids]

    def column(self, ids: "pa.Array") -> "pa.Array":
        """Return the names for a column of ids."""
        import pyarrow as pa

        met = ids.dictionary_encode()
        return pa.array(self.of(met.dictionary.to_pylist()), pa.string()).take(met.indices)


def pseudonyms(session: Session, task: Task) -> NameLookup:
    """Return the lookup of workers' pseudonyms in the task's data."""

    def look_up(ids: Sequence[int]) -> list[tuple[int, str]]:
        workers = session.scalars(select(Worker).where(Worker.id.in_(ids)))
        return [(worker.id, pseudonym(task, worker)) for worker in workers]

    return NameLookup(look_up)


def worker_names(session: Session, task: Task, ids: Iterable[int]) -> dict[int, str]:
    """Return the workers' pseudonyms in the task's data by their database ids."""
    known = sorted(ids)
    names = pseudonyms(session, task).of(known)
    return dict(zip(known, names, strict=True))


def chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the ids in chunks that a statement accepts."""
    for first in range(0, len(ids), MOST_VALUES):
        yield ids[first : first + MOST_VALUES]
