"""How long a call that went wrong is tried again: growing pauses of random length, inside one budget of time."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mturk.errors import CrowdBusy, CrowdError, CrowdUnavailable

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Patience:
    """Seconds for one call with all its tries, and the pauses between them; a definite no is never tried again."""

    budget: float = 60.0
    first_pause: float = 0.2
    longest_pause: float = 8.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    spread: Callable[[], float] = random.random

    def ask(self, call: Callable[[], Answer], may_repeat: Callable[[], bool] = lambda: True) -> Answer:
        """The call's answer, or the error of the last try that may have had an effect, or of the very last one."""
        until = self.clock() + self.budget
        pause = self.first_pause
        doubt: CrowdError | None = None
        while True:
            try:
                return call()
            except (CrowdBusy, CrowdUnavailable) as error:
                # "Slow down" after a lost answer must not read as "nothing happened".
                doubt = error if error.in_doubt else doubt
                last = doubt or error
            wait = pause * self.spread()
            if self.clock() + wait >= until:
                raise last
            self.sleep(wait)
            if not may_repeat():
                raise last
            pause = min(2 * pause, self.longest_pause)
