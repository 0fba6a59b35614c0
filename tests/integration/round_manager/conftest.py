"""Fixtures of the domain's tests: a task with an open round, and a crowd with money, on both databases."""

import pytest

from round_manager.database.store import Store
from tests.integration.money.counter import Counter, open_counter


@pytest.fixture
def counter(store: Store) -> Counter:
    """The sentiment task with round 1 open, and a crowd with money."""
    return open_counter(store)
