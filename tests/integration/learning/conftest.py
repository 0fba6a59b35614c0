"""A school on each kind of database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from round_manager.database.store import Store, open_store
from templates import Pack
from tests.integration.learning.school import School, found_school, small_pack, teach
from tests.integration.store.conftest import (  # noqa: F401 - pytest finds fixtures by their names here
    databases,
    postgresql_databases,
    sqlite_databases,
    store,
)
from tests.integration.store.databases import Databases


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that PostgreSQL is started once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("learning"))


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A small pack, as many held-out rows of each label."""
    return small_pack(tmp_path_factory.mktemp("packs"))


@pytest.fixture
def school(store: Store, pack: Pack, tmp_path: Path) -> School:  # noqa: F811 - the fixture
    """The task, with no round yet."""
    return found_school(store, pack, tmp_path / "models")


@pytest.fixture
def sqlite_school(sqlite_databases: Databases, pack: Pack, tmp_path: Path) -> Iterator[School]:  # noqa: F811
    """The same on SQLite alone, for what hangs on no database."""
    with open_store(sqlite_databases.migrated()) as opened:
        yield found_school(opened, pack, tmp_path / "models")


@pytest.fixture
def taught(sqlite_school: School) -> School:
    """A task against which `positive` answers, with one round that fooled it with negative rows."""
    return teach(sqlite_school)
