"""Patience that a person can see: with a marketplace that does not answer, a command says that it waits."""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil

from common.text import count
from mturk.errors import CrowdUnavailable
from mturk.patience import Answer, Patience

# Where nothing listens, waiting helps only while somebody starts it again.
SECONDS_WHERE_NOTHING_LISTENS = 5.0


@dataclass(frozen=True)
class SpokenPatience(Patience):
    """Patience that tells of the first try that was not answered, once, on standard error."""

    longest_pause: float = 2.0
    silent: bool = False
    _told: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def ask(self, call: Callable[[], Answer], may_repeat: Callable[[], bool] = lambda: True) -> Answer:
        """As ever, but not for long where nothing listens."""
        began = self.clock()
        refused = False

        def heard() -> Answer:
            nonlocal refused
            refused = False
            try:
                return call()
            except CrowdUnavailable as error:
                refused = _nothing_listens(error)
                self._tell(self._limit(refused) - (self.clock() - began))
                raise

        return super().ask(heard, lambda: self.clock() - began < self._limit(refused) and may_repeat())

    def _limit(self, refused: bool) -> float:
        return min(self.budget, SECONDS_WHERE_NOTHING_LISTENS) if refused else self.budget

    def _tell(self, seconds: float) -> None:
        # Many threads may fail at once; the lock is taken by the first and never given back.
        if not self.silent and seconds > 0 and self._told.acquire(blocking=False):
            told = f"the marketplace does not answer; trying for {count(ceil(seconds), 'more second')}"
            print(told, file=sys.stderr, flush=True)


def _nothing_listens(error: BaseException) -> bool:
    return any(isinstance(one, ConnectionRefusedError) for one in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
