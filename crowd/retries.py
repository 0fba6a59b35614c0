"""Retries of failed calls to a crowd: growing, randomised pauses within one time budget."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from crowd.errors import CrowdBusy, CrowdError, CrowdUnavailable

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class RetryPolicy:
    """The seconds for one call with all its retries, and the pauses between them. A refusal is never retried."""

    budget: float = 60.0
    first_pause: float = 0.2
    longest_pause: float = 8.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    spread: Callable[[], float] = random.random

    def run(self, call: Callable[[], Answer], may_repeat: Callable[[], bool] = lambda: True) -> Answer:
        """Return the call's answer, or raise the last error that leaves its effect in doubt, else the last error."""
        until = self.clock() + self.budget
        pause = self.first_pause
        doubt: CrowdError | None = None
        while True:
            try:
                return call()
            except (CrowdBusy, CrowdUnavailable) as error:
                # A rate limit after a lost answer must not be reported as "nothing happened".
                doubt = error if error.in_doubt else doubt
                last = doubt or error
            wait = pause * self.spread()
            if self.clock() + wait >= until:
                raise last
            self.sleep(wait)
            if not may_repeat():
                raise last
            pause = min(2 * pause, self.longest_pause)
