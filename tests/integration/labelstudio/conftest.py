"""Galleries: on both databases where what is tried depends on them, else in a file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from round_manager.database.store import Store, open_store
from tests.integration.labelstudio.gallery import Gallery, hang
from tests.integration.store.conftest import (  # noqa: F401 - pytest finds fixtures by their names here
    databases,
    postgresql_databases,
    sqlite_databases,
)
from tests.integration.store.databases import Databases
from tests.integration.work.conftest import opened, store

__all__ = ["opened", "store"]

Hang = Callable[[str], Gallery]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, with others that have started PostgreSQL."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("work"))


@pytest.fixture
def gallery(store: Store) -> Gallery:
    """The sentiment task, connected, on both databases."""
    return hang(store)


@pytest.fixture
def hang_up(sqlite_databases: Databases) -> Iterator[Hang]:  # noqa: F811 - the fixture
    """Hangs up a gallery of any pack, in a file."""
    with open_store(sqlite_databases.migrated()) as opened:
        yield lambda name: hang(opened, name)


@pytest.fixture
def plain(hang_up: Hang) -> Gallery:
    """The sentiment task, connected, in a file."""
    return hang_up("sentiment")
