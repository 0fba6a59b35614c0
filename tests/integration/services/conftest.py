"""A store of each kind for every test of the services, and a task on it."""

from pathlib import Path

import pytest

from round_manager.database.store import Store
from tests.integration.services.stage import Stage, set_stage
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
            item.add_marker(pytest.mark.xdist_group("services"))


@pytest.fixture
def stage(store: Store) -> Stage:  # noqa: F811 - the fixture
    """The sentiment task with an open round."""
    return set_stage(store, "sentiment")


@pytest.fixture
def qa(store: Store) -> Stage:  # noqa: F811 - the fixture
    """The QA task with an open round."""
    return set_stage(store, "qa")
