"""Campaigns to train models in."""

from pathlib import Path

import pytest

from round_manager.database.store import Store
from templates import Pack
from tests.campaign.training import TrainingCampaign, small_pack, start_training, with_closed_round


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A small pack with the same number of held-out rows for each label."""
    return small_pack(tmp_path_factory.mktemp("packs"))


@pytest.fixture
def training(store: Store, pack: Pack, tmp_path: Path) -> TrainingCampaign:
    """The task without a round, on each kind of database."""
    return start_training(store, pack, tmp_path / "models")


@pytest.fixture
def any_training(any_store: Store, pack: Pack, tmp_path: Path) -> TrainingCampaign:
    """The task without a round, for tests that do not depend on the kind of database."""
    return start_training(any_store, pack, tmp_path / "models")


@pytest.fixture
def trainable(any_training: TrainingCampaign) -> TrainingCampaign:
    """A task whose model predicts `positive`, with one closed round of negative rows that fooled it."""
    return with_closed_round(any_training)
