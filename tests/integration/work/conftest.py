"""A floor to work on, on both databases."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store, open_store
from tests.integration.store.conftest import (  # noqa: F401 - pytest finds fixtures by their names here
    databases,
    postgresql_databases,
    sqlite_databases,
)
from tests.integration.store.databases import Databases
from tests.integration.work.floor import Floor, lay_floor

LayFloor = Callable[..., Floor]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that PostgreSQL is started once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("work"))


@pytest.fixture(scope="session")
def opened() -> Iterator[dict[str, Store]]:
    """Stores by their URLs: PostgreSQL's is emptied and used again, and SQLAlchemy remembers its statements."""
    stores: dict[str, Store] = {}
    yield stores
    for one in stores.values():
        one.close()


@pytest.fixture
def store(databases: Databases, opened: dict[str, Store]) -> Iterator[Store]:  # noqa: F811 - the fixture
    """A store with the tables in place and no rows."""
    url = databases.migrated()
    known = opened.pop(url, None) or open_store(url)
    yield known
    if known.engine.dialect.name == "sqlite":
        known.close()
    else:
        opened[url] = known


@pytest.fixture
def floor(store: Store) -> Floor:
    """The sentiment task, open, on its own terms."""
    return lay_floor(store)


@pytest.fixture
def lay(store: Store) -> LayFloor:
    """A task of one's own choice, on other terms: `lay("qa", work={"tries": 2})`."""

    def lay(name: str = "sentiment", *, contexts: int = 8, **terms: dict[str, Any]) -> Floor:
        return lay_floor(store, name, contexts=contexts, **terms)

    return lay
