"""Retries that announce themselves: a command says that it is waiting for a marketplace that does not answer."""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil

from common.text import count
from crowd.errors import Answer, CrowdUnavailable, RetryPolicy

# If nothing listens, waiting helps only while the marketplace restarts.
SECONDS_WHERE_NOTHING_LISTENS = 5.0


@dataclass(frozen=True)
class AnnouncedRetries(RetryPolicy):
    """A RetryPolicy that announces the first unanswered attempt on standard error."""

    longest_pause: float = 2.0
    silent: bool = False
    _announced: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def run(self, call: Callable[[], Answer], may_repeat: Callable[[], bool] = lambda: True) -> Answer:
        """Return the call's answer; give up early if nothing listens."""
        began = self.clock()
        refused = False

        def attempt() -> Answer:
            nonlocal refused
            refused = False
            try:
                return call()
            except CrowdUnavailable as error:
                refused = _nothing_listens(error)
                self._announce(self._limit(refused) - (self.clock() - began))
                raise

        return super().run(attempt, lambda: self.clock() - began < self._limit(refused) and may_repeat())

    def _limit(self, refused: bool) -> float:
        return min(self.budget, SECONDS_WHERE_NOTHING_LISTENS) if refused else self.budget

    def _announce(self, seconds: float) -> None:
        # Many threads may fail at once: the first acquires the lock, and nothing releases it.
        if not self.silent and seconds > 0 and self._announced.acquire(blocking=False):
            text = f"the marketplace does not answer; retrying for {count(ceil(seconds), 'more second')}"
            print(text, file=sys.stderr, flush=True)


def _nothing_listens(error: BaseException) -> bool:
    return any(isinstance(one, ConnectionRefusedError) for one in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
