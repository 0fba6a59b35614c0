from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ml_backend.errors import ModelError, ModelParityFailed
from ml_backend.registry.model_loader import prepare
from ml_backend.registry.rotation import rotate
from ml_backend.targets.target import Prediction
from tests.fakes.registry import TASK, FixedTarget, QuickRegistry, load_fixed, make_version
from tests.unit.ml_backend.registry.conftest import StartPool


class Watched(FixedTarget):
    """Records the rows it was asked."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory.name, "positive")
        self.asked: list[Mapping[str, str]] = []

    def predict(self, rows: Sequence[Mapping[str, str]]) -> list[Prediction]:
        self.asked += rows
        return super().predict(rows)


class Mute(FixedTarget):
    """Loads, but cannot answer."""

    def predict(self, rows: Sequence[Mapping[str, str]]) -> list[Prediction]:
        raise RuntimeError("input_ids has an unexpected shape")


class Short(FixedTarget):
    """Returns one answer too few."""

    def predict(self, rows: Sequence[Mapping[str, str]]) -> list[Prediction]:
        return super().predict(rows)[1:]


def test_a_model_is_warmed_up_with_short_and_long_texts(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    registry.set_pins(TASK, [make_version(models)])
    predictor = start_pool(Watched).models_for(TASK).targets[0]
    assert isinstance(predictor, Watched)
    assert {key for row in predictor.asked for key in row} == {"text"}, (
        "it is asked for what its manifest says it reads"
    )
    assert max(len(row["text"]) for row in predictor.asked) > 10 * min(len(row["text"]) for row in predictor.asked)


@pytest.mark.parametrize(("kind", "error"), [(Mute, ModelError), (Short, ModelParityFailed)])
def test_a_model_that_loads_but_cannot_answer_is_refused(
    models: Path, registry: QuickRegistry, kind: type[FixedTarget], error: type[ModelError]
) -> None:
    version = make_version(models)
    with pytest.raises(error):
        prepare(registry, lambda directory: kind(directory.name, "positive"), TASK, version)
    assert prepare(registry, load_fixed, TASK, version).version == version


def test_a_model_that_fails_its_probes_is_refused_and_the_old_one_stays(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    good = make_version(models, "positive", said="positive")
    pool = start_pool(load_fixed)
    rotate(registry, TASK, [good], load=load_fixed)
    strange = make_version(models, "negative", said="positive")
    with pytest.raises(ModelParityFailed):
        rotate(registry, TASK, [strange], load=load_fixed)
    assert registry.pins(TASK, None).versions == (good,)  # type: ignore[union-attr]
    assert pool.models_for(TASK).targets[0].version == good
