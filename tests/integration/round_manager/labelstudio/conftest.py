"""Galleries: on both databases for tests that depend on them, else on one."""

from collections.abc import Callable

import pytest

from round_manager.database.store import Store
from tests.integration.round_manager.labelstudio.gallery import Gallery, hang

Hang = Callable[[str], Gallery]


@pytest.fixture
def gallery(store: Store) -> Gallery:
    """The sentiment task, connected, on both databases."""
    return hang(store)


@pytest.fixture
def hang_up(any_store: Store) -> Hang:
    """Create a gallery of any pack, for tests that do not depend on the database."""
    return lambda name: hang(any_store, name)


@pytest.fixture
def plain(hang_up: Hang) -> Gallery:
    """The sentiment task, connected, for tests that do not depend on the database."""
    return hang_up("sentiment")
