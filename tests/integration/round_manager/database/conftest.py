"""Worlds on each kind of database."""

from collections.abc import Iterator

import pytest

from round_manager.database.store import Store, open_store
from tests.integration.databases import Databases
from tests.integration.round_manager.database.world import World, build_world
from tests.integration.round_manager.database.world_filled import fill_world


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """The URL of an empty database."""
    url = databases.empty()
    yield url
    databases.drop(url)


@pytest.fixture
def world(store: Store) -> World:
    """A store with a task, an open round, people, and one of everything that the tests start from."""
    return build_world(store)


@pytest.fixture(scope="session")
def lasting_world(databases: Databases) -> Iterator[World]:
    """A world with a row in every table, for tests whose every change is refused or undone."""
    with databases.opened() as opened:
        yield fill_world(build_world(opened))


@pytest.fixture(scope="session")
def linked_world(databases: Databases) -> Iterator[World]:
    """A world with one of everything that people make, for tests whose every change is refused or undone."""
    with databases.opened() as opened:
        yield build_world(opened)


@pytest.fixture(scope="session")
def quiet_world(databases: Databases) -> Iterator[World]:
    """The same in a new database: deleted rows of other tests would make tables look larger to the planner."""
    url = databases.migrated()
    with open_store(url) as opened:
        yield fill_world(build_world(opened))
    databases.drop(url)
