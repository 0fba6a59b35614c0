"""Kills a process at random: around a transaction, and after a call to the marketplace."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from round_manager.database.store import Store
from tests.fakes.crowd import FakeCrowd


class Killed(BaseException):
    """The process is killed at this point."""


class RandomKills:
    """Kills the process at random moments, which a seed determines."""

    def __init__(self, share: float, seed: int = 7) -> None:
        self._share = share
        self._chance = random.Random(seed)
        self.count = 0

    def maybe_kill(self) -> None:
        """Mark a moment at which the process may be killed."""
        if self._chance.random() < self._share:
            self.count += 1
            raise Killed


class KillingStore(Store):
    """A store whose process may be killed just before and just after a transaction is committed."""

    def __init__(self, store: Store, kills: RandomKills) -> None:
        super().__init__(store.engine)
        self._kills = kills

    @contextmanager
    def write(self) -> Iterator[Session]:
        with super().write() as session:
            yield session
            session.flush()
            self._kills.maybe_kill()
        self._kills.maybe_kill()


class KillingCrowd(FakeCrowd):
    """A marketplace whose caller may be killed after any call."""

    kills = RandomKills(0)

    @contextmanager
    def _call(self, method: str) -> Iterator[None]:
        with super()._call(method):
            yield
        self.kills.maybe_kill()
