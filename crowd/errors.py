"""The errors of a crowd, and the retries of failed calls.

CrowdError
├── CrowdUnavailable        no answer, or a failure on their side: the call may have taken effect
├── CrowdBusy               rate limited: nothing happened
├── CrowdRefused            a definite refusal: nothing happened; `remote_code` is the marketplace's own code
│   ├── NotOnCrowd          no such HIT, assignment, worker or qualification
│   ├── WrongCrowdState     the state of a HIT or an assignment does not allow the call
│   ├── InsufficientFunds   the account does not cover the call; it can succeed once it does
│   └── CrowdAccessDenied   the access keys are missing, wrong or not permitted to do this
├── TokenMissing            a call that creates or pays, without a token: never sent
└── TokenExpired            the token no longer protects: look first, never just send again
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from common.errors import CodedError, Hint


class CrowdError(CodedError):
    """A call to a marketplace failed."""

    # Whether the call may have taken effect.
    in_doubt = False


class CrowdUnavailable(CrowdError):
    """The marketplace did not answer, or failed. The call may have taken effect."""

    retry = True
    in_doubt = True


class CrowdBusy(CrowdError):
    """The marketplace limits our rate. Nothing happened."""

    retry = True


class CrowdRefused(CrowdError):
    """The marketplace refused the call. Nothing happened."""

    def __init__(self, message: str, remote_code: str = "", *, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.remote_code = remote_code


class NotOnCrowd(CrowdRefused):
    """The marketplace has no such HIT, assignment, worker or qualification."""


class WrongCrowdState(CrowdRefused):
    """The state of a HIT or an assignment on the marketplace does not allow the call."""


class InsufficientFunds(CrowdRefused):
    """The account on the marketplace does not cover the call."""

    retry = True


class CrowdAccessDenied(CrowdRefused):
    """The access keys are missing, wrong, or not permitted to do this."""


class TokenMissing(CrowdError):
    """A call that creates or pays has no token."""


class TokenExpired(CrowdError):
    """The token no longer protects against a second effect; look for the first one before sending again."""


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
