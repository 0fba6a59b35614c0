"""A season: one task, its pages, a marketplace and the payments between them, on both databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.rounds.season import Season, begin_season
from tests.integration.store.conftest import (  # noqa: F401 - pytest finds fixtures by their names here
    databases,
    postgresql_databases,
    sqlite_databases,
)
from tests.integration.work.conftest import opened, store  # noqa: F401 - the same

BeginSeason = Callable[..., Season]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that PostgreSQL is started once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("rounds"))


@pytest.fixture
def season(store: Store) -> Season:  # noqa: F811 - the fixture
    """The sentiment task, open, on its own terms."""
    return begin_season(store)


@pytest.fixture
def begin(store: Store) -> BeginSeason:  # noqa: F811 - the fixture
    """The sentiment task on other terms: `begin(rounds={"target_fooling": 2})`."""

    def begin(*, contexts: int = 8, **terms: dict[str, Any]) -> Season:
        return begin_season(store, contexts=contexts, **terms)

    return begin
