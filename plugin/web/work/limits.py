"""Limits on how fast pages may call, far above what people do; each process counts for itself, in memory."""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from uuid import UUID

from plugin.web.work.errors import SlowDown

MOST_KNOWN = 10_000
TOO_FAST = "that was very fast; wait a few seconds and go on"


@dataclass(frozen=True)
class Rate:
    """So many at once, and then so many in a second."""

    burst: int
    per_second: float


# A class that is told to open one link now does so at once, and must get in beside somebody who forges names.
OPENINGS = Rate(500, 5.0)


class Limit:
    """One rate, kept for each of many callers."""

    def __init__(self, rate: Rate, time_now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = time_now
        self._used: dict[Hashable, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, caller: Hashable) -> None:
        """One more, or a SlowDown; what is refused does not count."""
        with self._lock:
            now = self._now()
            used = self._used_by(caller, now)
            if used + 1 > self._rate.burst:
                raise SlowDown(TOO_FAST)
            if len(self._used) >= MOST_KNOWN:
                self._used = {one: kept for one, kept in self._used.items() if self._used_by(one, now) > 0}
            self._used[caller] = (used + 1, now)

    def _used_by(self, caller: Hashable, now: float) -> float:
        used, at = self._used.get(caller, (0.0, now))
        return max(0.0, used - (now - at) * self._rate.per_second)


class Limits:
    """What is limited: calls of a session, tries of a worker, tries and openings of a HIT's link."""

    def __init__(self, time_now: Callable[[], float] = time.monotonic) -> None:
        self._calls = Limit(Rate(120, 5.0), time_now)
        self._tries = Limit(Rate(12, 0.5), time_now)
        self._tries_of_link = Limit(Rate(60, 5.0), time_now)
        self._openings = Limit(OPENINGS, time_now)

    def call(self, session: UUID) -> None:
        """A page calls."""
        self._calls.take(session)

    def ask(self, worker: int, hit: int) -> None:
        """A worker's page asks the model."""
        self._tries.take(worker)
        self._tries_of_link.take(hit)

    def open(self, hit: UUID) -> None:
        """Somebody new opens a HIT's link: whoever has it can claim to be anybody, but not everybody at once."""
        self._openings.take(hit)
