"""Processes that die: around a transaction, and after a call to the marketplace."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from round_manager.database.store import Store
from tests.fakes.crowd import FakeCrowd


class Killed(BaseException):
    """The process is killed at this point."""


class Fate:
    """Kills the process at random moments, which a seed determines."""

    def __init__(self, share: float, seed: int = 7) -> None:
        self._share = share
        self._chance = random.Random(seed)
        self.deaths = 0

    def strike(self) -> None:
        """Mark a moment at which the process may be killed."""
        if self._chance.random() < self._share:
            self.deaths += 1
            raise Killed


class MortalStore(Store):
    """A store whose process may be killed just before and just after a transaction is committed."""

    def __init__(self, store: Store, fate: Fate) -> None:
        super().__init__(store.engine)
        self._fate = fate

    @contextmanager
    def write(self) -> Iterator[Session]:
        with super().write() as session:
            yield session
            session.flush()
            self._fate.strike()
        self._fate.strike()


class MortalCrowd(FakeCrowd):
    """A marketplace whose caller may be killed after any call."""

    fate = Fate(0)

    @contextmanager
    def _call(self, method: str) -> Iterator[None]:
        with super()._call(method):
            yield
        self.fate.strike()
