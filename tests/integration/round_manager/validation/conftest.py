"""A panel of people who vote, on both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.round_manager.validation.panel import Panel, seat_panel

SeatPanel = Callable[..., Panel]


@pytest.fixture
def panel(store: Store) -> Panel:
    """The sentiment task, open, on its own terms."""
    return seat_panel(store)


@pytest.fixture
def seat(store: Store) -> SeatPanel:
    """A task with other terms: `seat("nli", work={"examples_per_hit": 2})`."""

    def seat(name: str = "sentiment", **terms: dict[str, Any]) -> Panel:
        return seat_panel(store, name, **terms)

    return seat
