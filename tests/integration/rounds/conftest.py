"""A season: one task, its pages, a marketplace and the payments between them, on both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.rounds.season import Season, begin_season

BeginSeason = Callable[..., Season]


@pytest.fixture
def season(store: Store) -> Season:
    """The sentiment task, open, on its own terms."""
    return begin_season(store)


@pytest.fixture
def begin(store: Store) -> BeginSeason:
    """The sentiment task on other terms: `begin(rounds={"target_fooling": 2})`."""

    def begin(*, contexts: int = 8, **terms: dict[str, Any]) -> Season:
        return begin_season(store, contexts=contexts, **terms)

    return begin
