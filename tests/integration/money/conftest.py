"""A task with an open round, a crowd with money in it, and the services between them, on both databases."""

from pathlib import Path

import pytest

from round_manager.database.store import Store
from tests.integration.money.counter import Counter, open_counter
from tests.integration.store.conftest import (  # noqa: F401 - pytest finds fixtures by their names here
    databases,
    postgresql_databases,
    sqlite_databases,
    store,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that PostgreSQL is started once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("money"))


@pytest.fixture
def counter(store: Store) -> Counter:  # noqa: F811 - the fixture
    """The sentiment task's counter: hats on, till full."""
    return open_counter(store)
