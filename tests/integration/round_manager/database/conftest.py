"""Sample rows on each kind of database."""

from collections.abc import Iterator

import pytest

from round_manager.database.store import Store, open_store
from tests.integration.databases import Databases
from tests.integration.round_manager.database.all_tables import fill_all_tables
from tests.integration.round_manager.database.sample_rows import SampleRows, add_sample_rows


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """The URL of an empty database."""
    url = databases.empty()
    yield url
    databases.drop(url)


@pytest.fixture
def sample(store: Store) -> SampleRows:
    """A store with a task, an open round, people, and one of everything that the tests start from."""
    return add_sample_rows(store)


@pytest.fixture(scope="session")
def full_sample(databases: Databases) -> Iterator[SampleRows]:
    """A row in every table, for tests whose every change is refused or undone."""
    with databases.opened() as opened:
        yield fill_all_tables(add_sample_rows(opened))


@pytest.fixture(scope="session")
def shared_sample(databases: Databases) -> Iterator[SampleRows]:
    """One of everything that people make, for tests whose every change is refused or undone."""
    with databases.opened() as opened:
        yield add_sample_rows(opened)


@pytest.fixture(scope="session")
def fresh_sample(databases: Databases) -> Iterator[SampleRows]:
    """The same in a new database: deleted rows of other tests would make tables look larger to the planner."""
    url = databases.migrated()
    with open_store(url) as opened:
        yield fill_all_tables(add_sample_rows(opened))
    databases.drop(url)
