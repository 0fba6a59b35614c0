"""Which trainings are not repeated."""

from pathlib import Path

import pytest

from round_manager.learning.training_data import LocalTrainer, TrainingOrder
from templates import load_pack
from tests.integration.round_manager.learning.trained_home import Home, home_trained_once  # noqa: F401 - fixtures
from tests.unit.ml_backend.conftest import tiny_base  # noqa: F401 - pytest finds fixtures by their names here


@pytest.mark.parametrize(("mode", "is_found"), [("head", True), ("full", False)])
def test_a_version_that_another_machine_has_published_is_not_trained_again(
    trained_once: Home, tmp_path: Path, mode: str, is_found: bool
) -> None:
    published = trained_once.folder / "models" / "sentiment" / trained_once.base
    trainer = LocalTrainer(tmp_path / "models", tmp_path / "cache", lambda task: published)
    pack = load_pack(trained_once.pack)
    plan = trainer.plan(TrainingOrder(pack, pack.seed, (), mode))
    assert plan.existing == (published if is_found else None)
    alone = LocalTrainer(tmp_path / "models", tmp_path / "cache")
    assert alone.plan(TrainingOrder(pack, pack.seed, (), mode)).existing is None
