"""Seeded order: orders that look random, are the same for the same seed, and that no worker can predict."""

import hashlib
import hmac
from typing import TypeVar

from sqlalchemy import ColumnElement
from sqlalchemy.orm import InstrumentedAttribute, Session

from round_manager.models import Task, WorkSession

# Ids below 2^32, and then numbers below this prime, are multiplied by others below it: this stays within the
# databases' 64 bits.
PRIME = 2**31 - 1

Number = TypeVar("Number", int, ColumnElement[int])


def seed_of(session: Session, work: WorkSession, task_id: int) -> bytes:
    """Return the seed of a session's orders: always the same, and secret to its worker."""
    # A page knows its session's id, so the id alone would reveal which items are gold.
    salt = session.get_one(Task, task_id).worker_salt
    return hmac.digest(salt.encode(), f"lots of {work.public_id}".encode(), hashlib.sha256)


def order_key(seed: bytes, *what: object) -> bytes:
    """Return the sort key of something in the seed's order."""
    return hmac.digest(seed, repr(what).encode(), hashlib.sha256)


class SeededOrder:
    """The sort keys of contexts in a seed's order, and the lot at which it starts."""

    def __init__(self, seed: bytes) -> None:
        drawn = order_key(seed, "context")
        times, plus, self.start = (int.from_bytes(drawn[part : part + 8]) % PRIME for part in (0, 8, 16))
        self._times, self._plus = max(1, times), plus

    def of_id(self, context_id: int) -> int:
        """Return the sort key of one context."""
        return _mixed((context_id * self._times + self._plus) % PRIME)

    def of_column(self, context_id: ColumnElement[int] | InstrumentedAttribute[int]) -> ColumnElement[int]:
        """Return the sort key of the contexts of a query."""
        return _mixed((context_id * self._times + self._plus) % PRIME)


def _mixed(place: Number) -> Number:
    # Without mixing, keys are evenly spaced, and the first and the last id would be lowest too often.
    return place * place % PRIME * place % PRIME
