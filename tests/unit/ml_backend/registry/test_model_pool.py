import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from ml_backend.errors import ModelError, ModelParityFailed, NoModelPinned, NotServed, TaskNotServed
from ml_backend.registry.model_pool import ModelPool, ServedModels, prepare
from ml_backend.registry.pins import Pins
from ml_backend.registry.rotation import rotate
from ml_backend.targets.target import LabelPrediction, Prediction
from tests.fakes.registry import ROW, TASK, FixedTarget, QuickRegistry, corrupt, eventually, load_fixed, make_version
from tests.unit.ml_backend.registry.conftest import StartPool


def versions_of(serving: ServedModels) -> list[str]:
    return [predictor.version for predictor in serving.targets]


def labels_of(serving: ServedModels) -> list[str]:
    answers = [predictor.predict([ROW])[0] for predictor in serving.targets]
    return [answer.label for answer in answers if isinstance(answer, LabelPrediction)]


def follows(pool: ModelPool, pins: Pins) -> bool:
    return pool.models_for(TASK).generation == pins.generation


class CountingLoad:
    """Loads versions and records them."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __call__(self, directory: Path) -> FixedTarget:
        self.loaded.append(directory.name)
        return load_fixed(directory)


def test_the_pinned_version_answers_after_the_start(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    version = make_version(models, "neutral")
    pins = registry.set_pins(TASK, [version])
    serving = start_pool().models_for(TASK)
    assert (serving.task, serving.round, serving.generation) == (TASK, None, pins.generation)
    assert (versions_of(serving), labels_of(serving)) == ([version], ["neutral"])


def test_a_change_of_the_pins_is_followed(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    old, new = make_version(models, "positive"), make_version(models, "negative")
    registry.set_pins(TASK, [old])
    pool = start_pool()
    registry.set_pins(TASK, [new])
    eventually(lambda: labels_of(pool.models_for(TASK)) == ["negative"], "the new version answers")
    assert versions_of(pool.models_for(TASK)) == [new]


def test_a_request_ends_with_the_models_it_began_with(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    versions = [make_version(models, label, note=str(n)) for n in range(4) for label in ("positive", "negative")]
    registry.set_pins(TASK, versions[:1])
    pool = start_pool(spare=1)
    begun = pool.models_for(TASK)
    for version in versions[1:]:
        pins = registry.set_pins(TASK, [version])
        eventually(partial(follows, pool, pins), "the next one answers")
    assert versions[0] not in pool.state().loaded, "it has made room for others"
    assert (versions_of(begun), labels_of(begun)) == ([versions[0]], ["positive"])


def test_several_pinned_versions_answer_together(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    versions = [make_version(models, label) for label in ("positive", "negative", "neutral")]
    registry.set_pins(TASK, versions)
    serving = start_pool().models_for(TASK)
    assert (versions_of(serving), labels_of(serving)) == (versions, ["positive", "negative", "neutral"])


def test_a_round_is_answered_by_its_own_pins(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    old, new = make_version(models, "positive"), make_version(models, "negative")
    registry.set_pins(TASK, [old], round=1)
    registry.set_pins(TASK, [new])
    pool = start_pool()
    assert versions_of(pool.models_for(TASK, 1)) == [old]
    assert versions_of(pool.models_for(TASK, 2)) == versions_of(pool.models_for(TASK)) == [new]
    registry.set_pins(TASK, [], round=1)
    eventually(lambda: versions_of(pool.models_for(TASK, 1)) == [new], "the round has no own pins")


@pytest.mark.parametrize("fault", ["broken", "unfit", "corrupt"])
def test_a_version_that_does_not_load_leaves_the_old_one_in_place(
    models: Path, registry: QuickRegistry, start_pool: StartPool, fault: str
) -> None:
    good = make_version(models)
    bad = make_version(models, "negative", fault=fault)
    if fault == "corrupt":
        corrupt(models / TASK / bad)
    registry.set_pins(TASK, [good])
    pool = start_pool()
    pins = registry.set_pins(TASK, [bad])

    eventually(lambda: registry.heartbeats(TASK)[0].tasks[TASK].failures, "the error is reported")
    assert versions_of(pool.models_for(TASK)) == [good]
    (heartbeat,) = registry.heartbeats(TASK)
    failure = heartbeat.tasks[TASK].failure(None)
    assert failure is not None
    assert (heartbeat.tasks[TASK].generation, failure.retry) == (pins.generation, False)
    assert failure.error == pool.state().slots[0].error

    registry.set_pins(TASK, [good])
    eventually(lambda: pool.state().slots[0].error is None, "all is well again")


def test_a_round_whose_first_pins_do_not_load_keeps_the_tasks_models(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    good, bad = make_version(models), make_version(models, fault="broken")
    registry.set_pins(TASK, [good])
    pool = start_pool()
    registry.set_pins(TASK, [bad], round=1)
    eventually(lambda: len(pool.state().slots) == 2, "the error is reported")
    assert versions_of(pool.models_for(TASK, 1)) == [good]


def test_a_round_with_a_corrupt_version_is_not_served_by_another_one_after_a_restart(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    good, bad = make_version(models), make_version(models, fault="broken")
    registry.set_pins(TASK, [good])
    registry.set_pins(TASK, [bad], round=1)
    pool = start_pool()
    assert versions_of(pool.models_for(TASK)) == [good]
    with pytest.raises(NotServed, match="graph has no outputs") as caught:
        pool.models_for(TASK, 1)
    assert caught.value.retry


def test_a_task_without_pins_is_not_served_yet(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    models.mkdir()
    pool = start_pool()
    with pytest.raises(NoModelPinned) as caught:
        pool.models_for(TASK)
    assert caught.value.retry
    version = make_version(models)
    registry.set_pins(TASK, [version])
    eventually(lambda: pool.state().slots, "the first pins are followed")
    assert versions_of(pool.models_for(TASK)) == [version]


def test_an_unknown_task_is_not_served(models: Path, start_pool: StartPool) -> None:
    models.mkdir()
    with pytest.raises(TaskNotServed) as caught:
        start_pool().models_for("nli")
    assert not caught.value.retry


def test_one_pool_serves_several_tasks(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    sentiment, nli = make_version(models), make_version(models, task="nli")
    registry.set_pins(TASK, [sentiment])
    registry.set_pins("nli", [nli])
    pool = start_pool(load_fixed, TASK, "nli")
    assert versions_of(pool.models_for(TASK)) == [sentiment]
    assert versions_of(pool.models_for("nli")) == [nli]
    assert {TASK, "nli"} == set(registry.heartbeats(TASK)[0].tasks)


def test_versions_of_rounds_are_unloaded_and_loaded_again_on_demand(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    current, *old = [make_version(models, note=str(number)) for number in range(5)]
    registry.set_pins(TASK, [current])
    for round, version in enumerate(old, 1):
        registry.set_pins(TASK, [version], round=round)
    load = CountingLoad()
    pool = start_pool(load, spare=2)
    assert len(pool.state().loaded) == 3
    for _ in range(2):
        for round, version in enumerate(old, 1):
            assert versions_of(pool.models_for(TASK, round)) == [version]
            assert versions_of(pool.models_for(TASK)) == [current]
            assert len(pool.state().loaded) == 3
    assert load.loaded.count(current) == 1, "the current one never goes"
    assert {old[2], old[3], current} == set(pool.state().loaded), "the least recently asked went"


def test_a_recently_replaced_version_stays_loaded(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    one, two = make_version(models, "positive"), make_version(models, "negative")
    registry.set_pins(TASK, [one])
    load = CountingLoad()
    pool = start_pool(load)
    for version in (two, one, two, one):
        pins = registry.set_pins(TASK, [version])
        eventually(partial(follows, pool, pins), "it is followed")
        assert versions_of(pool.models_for(TASK)) == [version]
    assert load.loaded == [one, two]


def test_the_state_lists_slots_versions_and_errors(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    version = make_version(models)
    pins = registry.set_pins(TASK, [version])
    state = start_pool().state()
    (slot,) = state.slots
    assert (slot.task, slot.round, slot.generation, slot.versions) == (TASK, None, pins.generation, (version,))
    assert slot.loaded
    assert slot.since is not None
    assert slot.since.tzinfo is not None
    assert (slot.error, state.registry_error, state.loaded) == (None, None, (version,))


def test_a_stopped_pool_removes_its_heartbeat(models: Path, registry: QuickRegistry) -> None:
    registry.set_pins(TASK, [make_version(models)])
    pool = ModelPool(registry, load_fixed, [TASK])
    pool.start()
    assert len(registry.heartbeats(TASK)) == 1
    pool.stop()
    assert registry.heartbeats(TASK) == []


def test_a_lookup_takes_microseconds(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    registry.set_pins(TASK, [make_version(models)])
    pool = start_pool()
    fastest = min(_seconds_of_a_thousand(pool) for _ in range(5))
    assert fastest / 1000 < 20e-6


def _seconds_of_a_thousand(pool: ModelPool) -> float:
    began = time.perf_counter()
    for _ in range(1000):
        pool.models_for(TASK)
    return time.perf_counter() - began


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
