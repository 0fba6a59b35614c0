"""A token protects while the marketplace remembers it for certain, whatever the clocks of two processes say."""

from datetime import timedelta

import pytest

from crowd.port import CLOCK_SKEW, Token
from tests.fakes.clock import NOON

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


@pytest.mark.parametrize("passed", [-CLOCK_SKEW, timedelta(), DAY - CLOCK_SKEW - SECOND])
def test_a_token_protects_between_clocks_that_differ(passed: timedelta) -> None:
    assert Token("key", NOON).protects(NOON + passed, DAY)


@pytest.mark.parametrize("passed", [-CLOCK_SKEW - SECOND, DAY - CLOCK_SKEW])
def test_a_token_does_not_protect_once_a_clock_may_hide_its_end(passed: timedelta) -> None:
    assert not Token("key", NOON).protects(NOON + passed, DAY)


def test_a_crowd_that_remembers_no_tokens_protects_nothing() -> None:
    assert not Token("key", NOON).protects(NOON, None)
