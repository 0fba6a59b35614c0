"""A task with an open round, a crowd with money in it, and the services between them, on both databases."""

import pytest

from round_manager.database.store import Store
from tests.integration.money.counter import Counter, open_counter


@pytest.fixture
def counter(store: Store) -> Counter:
    """The sentiment task's counter: hats on, till full."""
    return open_counter(store)
