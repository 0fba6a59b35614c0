"""A store of each kind for every test of the services, and a task on it."""

import pytest

from round_manager.database.store import Store
from tests.integration.services.stage import Stage, set_stage


@pytest.fixture
def stage(store: Store) -> Stage:
    """The sentiment task with an open round."""
    return set_stage(store, "sentiment")


@pytest.fixture
def qa(store: Store) -> Stage:
    """The QA task with an open round."""
    return set_stage(store, "qa")
