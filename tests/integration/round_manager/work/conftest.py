"""A floor to work on, on both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.round_manager.work.floor import Floor, lay_floor

LayFloor = Callable[..., Floor]


@pytest.fixture
def floor(store: Store) -> Floor:
    """The sentiment task, open, on its own terms."""
    return lay_floor(store)


@pytest.fixture
def lay(store: Store) -> LayFloor:
    """A task with other terms: `lay("qa", work={"tries": 2})`."""

    def lay(name: str = "sentiment", *, contexts: int = 8, **terms: dict[str, Any]) -> Floor:
        return lay_floor(store, name, contexts=contexts, **terms)

    return lay
