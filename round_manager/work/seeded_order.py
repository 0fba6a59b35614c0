"""Lots: orders that look random, are the same each time for one seed, and that no worker can work out."""

import hashlib
import hmac
from typing import TypeVar

from sqlalchemy import ColumnElement
from sqlalchemy.orm import InstrumentedAttribute, Session

from round_manager.models import Task, WorkSession

# The draw multiplies ids below 2^32, and then numbers below this prime, by others below it: it stays within the
# databases' 64 bits.
PRIME = 2**31 - 1

Number = TypeVar("Number", int, ColumnElement[int])


def seed_of(session: Session, work: WorkSession, task_id: int) -> bytes:
    """What a session's lots are drawn with: the same each time, and nothing that its worker can work out."""
    # Pages carry their session's id, so the id alone would tell workers which of their items are gold.
    salt = session.get_one(Task, task_id).worker_salt
    return hmac.digest(salt.encode(), f"lots of {work.public_id}".encode(), hashlib.sha256)


def order_key(seed: bytes, *what: object) -> bytes:
    """Something's place in an order that looks random and is the same each time for one seed."""
    return hmac.digest(seed, repr(what).encode(), hashlib.sha256)


class SeededOrder:
    """The places of contexts in such an order, and the lot at which it begins."""

    def __init__(self, seed: bytes) -> None:
        drawn = order_key(seed, "context")
        times, plus, self.start = (int.from_bytes(drawn[part : part + 8]) % PRIME for part in (0, 8, 16))
        self._times, self._plus = max(1, times), plus

    def of_id(self, context_id: int) -> int:
        """The place of one context."""
        return _mixed((context_id * self._times + self._plus) % PRIME)

    def of_column(self, context_id: ColumnElement[int] | InstrumentedAttribute[int]) -> ColumnElement[int]:
        """The same for the contexts of a query."""
        return _mixed((context_id * self._times + self._plus) % PRIME)


def _mixed(place: Number) -> Number:
    # Places alone are at even distances, so that the first and the last id would be the lowest too often.
    return place * place % PRIME * place % PRIME
