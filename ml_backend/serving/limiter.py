"""The concurrency limiter: a few requests reach the models at a time, some wait, and others are refused at once."""

import math
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Self

from ml_backend.errors import AnswerTimeout, Busy

# The weight of the last request in the mean from which the waiting time is estimated.
_WEIGHT = 0.05
_MAX_RETRY_AFTER = 60


@dataclass(frozen=True)
class LimiterLoad:
    """How busy the limiter is."""

    busy: int
    at_once: int
    waiting: int
    room: int


class ConcurrencyLimiter:
    """Admits `at_once` requests at a time, first come, first served, while at most `room` others wait.

    A slot that is released goes to the first in line under one lock, so that no wake-up is lost and no request
    overtakes another.
    """

    def __init__(self, at_once: int, room: int) -> None:
        self._at_once = at_once
        self._room = room
        self._lock = threading.Lock()
        self._busy = 0
        self._line: deque[threading.Lock] = deque()
        self._mean = 0.0

    def slot(self, deadline: float) -> "LimiterSlot":
        """Return a context manager for one slot; entering raises Busy if there is no room or no slot by `deadline`.

        The deadline is a time of `time.monotonic()`.
        """
        return LimiterSlot(self, deadline)

    def load(self) -> LimiterLoad:
        """Return how busy the limiter is."""
        with self._lock:
            return LimiterLoad(self._busy, self._at_once, len(self._line), self._room)

    def acquire(self, deadline: float) -> None:
        """Wait for a slot; the caller must `release` it."""
        with self._lock:
            if time.monotonic() >= deadline:
                raise self._timeout()
            if self._busy < self._at_once:
                self._busy += 1
                return
            if len(self._line) >= self._room:
                raise Busy("the backend is full; try again in a moment, or start more workers", self._retry_after())
            mine = threading.Lock()
            mine.acquire()
            self._line.append(mine)
        if mine.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return
        with self._lock:
            if mine in self._line:
                self._line.remove(mine)
                raise self._timeout()
        # The slot was handed over just as the time ran out: use it, for no other request has it.

    def release(self, seconds: float) -> None:
        """Return a slot that was held for that long; the first in line gets it."""
        with self._lock:
            self._mean += (seconds - self._mean) * _WEIGHT
            if self._line:
                self._line.popleft().release()
            else:
                self._busy -= 1

    def _timeout(self) -> AnswerTimeout:
        return AnswerTimeout("no answer in time; send less at once, or try again in a moment", self._retry_after())

    def _retry_after(self) -> int:
        """Estimate in how many seconds the requests that wait now will be done."""
        seconds = self._mean * (len(self._line) + self._busy) / self._at_once
        return min(_MAX_RETRY_AFTER, max(1, math.ceil(seconds)))


class LimiterSlot:
    """One slot of a limiter, as a context manager."""

    __slots__ = ("_began", "_deadline", "_limiter")

    def __init__(self, limiter: ConcurrencyLimiter, deadline: float) -> None:
        self._limiter = limiter
        self._deadline = deadline
        self._began = 0.0

    def __enter__(self) -> Self:
        self._limiter.acquire(self._deadline)
        self._began = time.monotonic()
        return self

    def __exit__(self, *_error: object) -> None:
        self._limiter.release(time.monotonic() - self._began)
