"""Campaigns that are connected to Label Studio: on both databases for tests that depend on them, else on one."""

from collections.abc import Callable

import pytest

from round_manager.database.store import Store
from tests.campaign import Campaign, start_campaign

ConnectCampaign = Callable[[str], Campaign]


def connected(store: Store, name: str = "sentiment") -> Campaign:
    made = start_campaign(store, name, validation={"gold_rate": 0.0})
    made.connect_label_studio()
    return made


@pytest.fixture
def campaign(store: Store) -> Campaign:
    """The sentiment task, connected, on both databases."""
    return connected(store)


@pytest.fixture
def connect(any_store: Store) -> ConnectCampaign:
    """Connect the task of any pack, for tests that do not depend on the database."""
    return lambda name: connected(any_store, name)


@pytest.fixture
def any_campaign(connect: ConnectCampaign) -> Campaign:
    """The sentiment task, connected, for tests that do not depend on the database."""
    return connect("sentiment")
