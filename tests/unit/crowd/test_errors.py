from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from crowd.errors import CrowdBusy, CrowdError, CrowdRefused, CrowdUnavailable, InsufficientFunds, RetryPolicy


@dataclass
class Tries:
    """Calls that fail as a test says, and the time that passes in between."""

    errors: list[CrowdError]
    seconds: float = 0.0
    pauses: list[float] = field(default_factory=list)
    made: int = 0

    def call(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds

    def policy(self, budget: float = 60, spread: Callable[[], float] = lambda: 1.0) -> RetryPolicy:
        return RetryPolicy(budget=budget, clock=lambda: self.seconds, sleep=self.sleep, spread=spread)


def test_a_call_that_succeeds_is_made_once() -> None:
    tries = Tries([])
    assert tries.policy().run(tries.call) == "done"
    assert tries.made == 1
    assert tries.pauses == []


def test_delays_grow_up_to_a_maximum() -> None:
    tries = Tries([CrowdBusy("slow down") for _ in range(8)])
    assert tries.policy().run(tries.call) == "done"
    assert tries.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8.0, 8.0]


def test_delays_are_randomised() -> None:
    tries = Tries([CrowdBusy("slow down"), CrowdUnavailable("gone")])
    chance = iter((0.5, 0.25))
    tries.policy(spread=lambda: next(chance)).run(tries.call)
    assert tries.pauses == [0.1, 0.1]


def test_all_attempts_together_stay_within_the_time_budget() -> None:
    tries = Tries([CrowdBusy(f"slow down {number}") for number in range(100)])
    with pytest.raises(CrowdBusy):
        tries.policy(budget=2).run(tries.call)
    assert tries.seconds < 2


@pytest.mark.parametrize("error", [CrowdRefused("no"), InsufficientFunds("no money")])
def test_a_definite_refusal_is_not_retried(error: CrowdError) -> None:
    tries = Tries([error])
    with pytest.raises(type(error)):
        tries.policy().run(tries.call)
    assert tries.made == 1


def test_throttling_after_a_lost_answer_leaves_the_call_in_doubt() -> None:
    tries = Tries([CrowdUnavailable("lost"), *(CrowdBusy("slow down") for _ in range(100))])
    with pytest.raises(CrowdUnavailable) as caught:
        tries.policy(budget=5).run(tries.call)
    assert caught.value.in_doubt


def test_a_call_that_may_no_longer_be_repeated_is_not_retried() -> None:
    tries = Tries([CrowdUnavailable("lost")])
    with pytest.raises(CrowdUnavailable):
        tries.policy().run(tries.call, lambda: False)
    assert tries.made == 1
