"""A company on both databases."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store, open_store
from tests.integration.manager.company import Company, found_company
from tests.integration.store.conftest import (  # noqa: F401 - pytest finds fixtures by their names here
    databases,
    postgresql_databases,
    sqlite_databases,
)
from tests.integration.store.databases import Databases
from tests.integration.work.conftest import opened, store  # noqa: F401 - the same

Found = Callable[..., Company]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that PostgreSQL is started once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("manager"))


@pytest.fixture
def company(store: Store, tmp_path: Path) -> Company:  # noqa: F811 - the fixture
    """A small round 1, open, and eight people who may work on it."""
    made = found_company(store, tmp_path)
    made.hire()
    return made


@pytest.fixture
def small(sqlite_databases: Databases, tmp_path: Path) -> Iterator[Found]:  # noqa: F811 - the fixture
    """A company on SQLite alone, for what hangs on no database: `small(rounds={"target_fooling": 1})`."""
    with open_store(sqlite_databases.migrated()) as opened_store:

        def small(*, people: bool = True, **terms: dict[str, Any]) -> Company:
            made = found_company(opened_store, tmp_path, **terms)
            if people:
                made.hire()
            return made

        yield small
