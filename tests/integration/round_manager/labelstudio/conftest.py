"""Galleries: on both databases where what is tried depends on them, else on one."""

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
    """Hangs up a gallery of any pack, for what hangs on no database."""
    return lambda name: hang(any_store, name)


@pytest.fixture
def plain(hang_up: Hang) -> Gallery:
    """The sentiment task, connected, for what hangs on no database."""
    return hang_up("sentiment")
