"""The gate before the models: a few at a time, some waiting in line, everybody else told at once to come back."""

import math
import threading
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ml_backend.serving.errors import Busy

# How much the last turn counts in the mean from which a waiting time is guessed.
_WEIGHT = 0.05
_LONGEST_ADVICE = 60


@dataclass(frozen=True)
class Load:
    """How full the gate is."""

    busy: int
    at_once: int
    waiting: int
    room: int


class Gate:
    """Lets `at_once` through at a time, first come, first served, while at most `room` wait for their turn.

    A turn that ends is handed to the first in line under one lock, so that no wake-up is lost and nobody overtakes.
    """

    def __init__(self, at_once: int, room: int) -> None:
        self._at_once = at_once
        self._room = room
        self._lock = threading.Lock()
        self._busy = 0
        self._line: deque[threading.Lock] = deque()
        self._mean = 0.0

    def turn(self, deadline: float) -> "Turn":
        """A turn to be entered with `with`; Busy where there is no room, or no turn before time.monotonic() says so."""
        return Turn(self, deadline)

    def load(self) -> Load:
        """How full it is now."""
        with self._lock:
            return Load(self._busy, self._at_once, len(self._line), self._room)

    def enter(self, deadline: float) -> None:
        """Waits for a turn; whoever gets one must `leave`."""
        with self._lock:
            if time.monotonic() >= deadline:
                raise self._too_late()
            if self._busy < self._at_once:
                self._busy += 1
                return
            if len(self._line) >= self._room:
                raise Busy("the backend is full; try again in a moment, or start more workers", self._advice())
            mine = threading.Lock()
            mine.acquire()
            self._line.append(mine)
        if mine.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return
        with self._lock:
            if mine in self._line:
                self._line.remove(mine)
                raise self._too_late()
        # The turn was handed over in the very moment in which the time ran out: it is taken, for nobody else has it.

    def leave(self, seconds: float) -> None:
        """Ends a turn that took so long; the first in line has it now."""
        with self._lock:
            self._mean += (seconds - self._mean) * _WEIGHT
            if self._line:
                self._line.popleft().release()
            else:
                self._busy -= 1

    def _too_late(self) -> Busy:
        return Busy("this could not be done in time; send less at once, or try again in a moment", self._advice())

    def _advice(self) -> int:
        """In how many seconds those who wait now will have had their turns."""
        seconds = self._mean * (len(self._line) + self._busy) / self._at_once
        return min(_LONGEST_ADVICE, max(1, math.ceil(seconds)))


class Turn:
    """One turn at a gate."""

    __slots__ = ("_began", "_deadline", "_gate")

    def __init__(self, gate: Gate, deadline: float) -> None:
        self._gate = gate
        self._deadline = deadline
        self._began = 0.0

    def __enter__(self) -> Self:
        self._gate.enter(self._deadline)
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.leave(time.monotonic() - self._began)
