"""Campaigns with managers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.plugin.manager.managed_campaign import ManagedCampaign, start_managed

NewManaged = Callable[..., ManagedCampaign]


@pytest.fixture
def campaign(store: Store, tmp_path: Path) -> ManagedCampaign:
    """A small round 1, open, with eight qualified workers, on both databases."""
    made = start_managed(store, tmp_path)
    made.qualify_workers()
    return made


@pytest.fixture
def new_campaign(any_store: Store, tmp_path: Path) -> NewManaged:
    """Start one on one kind of database, with other terms: `new_campaign(rounds={"target_fooling": 1})`."""

    def new_campaign(*, qualified: bool = True, **terms: Any) -> ManagedCampaign:
        made = start_managed(any_store, tmp_path, **terms)
        if qualified:
            made.qualify_workers()
        return made

    return new_campaign
