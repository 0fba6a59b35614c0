"""A panel of people who vote, on both databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.store.conftest import (  # noqa: F401 - pytest finds fixtures by their names here
    databases,
    postgresql_databases,
    sqlite_databases,
)
from tests.integration.validation.panel import Panel, seat_panel
from tests.integration.work.conftest import opened, store  # noqa: F401 - the same

SeatPanel = Callable[..., Panel]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that PostgreSQL is started once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("validation"))


@pytest.fixture
def panel(store: Store) -> Panel:  # noqa: F811 - the fixture
    """The sentiment task, open, on its own terms."""
    return seat_panel(store)


@pytest.fixture
def seat(store: Store) -> SeatPanel:  # noqa: F811 - the fixture
    """A task of one's own choice, on other terms: `seat("nli", work={"examples_per_hit": 2})`."""

    def seat(name: str = "sentiment", **terms: dict[str, Any]) -> Panel:
        return seat_panel(store, name, **terms)

    return seat
