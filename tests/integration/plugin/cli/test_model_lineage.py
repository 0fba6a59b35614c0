"""`outfox model rotate`, `rollback` and `lineage` on the command line, for tasks with rounds."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from round_manager.database.store import open_store
from round_manager.learning.training_jobs import training_lock
from tests.campaign.training import TASK, TrainingCampaign, find_training, first_round_rows, small_pack
from tests.conftest import Outfox
from tests.fakes.registry import corrupt, load_fixed, make_version
from tests.fakes.round_opener import RoundOpener
from tests.fakes.trainer import FakeTrainer


@pytest.fixture
def training(
    outfox: Outfox, home_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TrainingCampaign]:
    """A task in the commands' home, served by a model that predicts `positive`."""
    pack = small_pack(tmp_path / "packs")
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    assert outfox("task", "create", pack.folder).code == 0
    with open_store(home_tables) as store:
        made = find_training(store, pack, tmp_path / "home" / "models")
        made.pin("positive")
        yield made


def open_round(training: TrainingCampaign, *versions: str) -> None:
    opening = RoundOpener(training.store, training.registry, str(training.models), load_fixed, training.clock, 5.0)
    opening.open(TASK, versions, actor="owner@here", reason="a test")


def pinned_for(training: TrainingCampaign, number: int) -> tuple[str, ...]:
    pins = training.registry.pins(TASK, number)
    return pins.versions if pins else ()


def test_a_live_round_keeps_its_versions(outfox: Outfox, training: TrainingCampaign) -> None:
    (positive,) = training.pinned()
    negative = make_version(training.models, "negative")
    training.registry.set_pins(TASK, [negative], round=1)
    open_round(training, positive)
    for arguments in (("rotate", TASK, negative), ("rollback", TASK)):
        ran = outfox("model", *arguments, "--round", 1, "--json")
        error = json.loads(ran.err.splitlines()[-1])
        assert (ran.code, error["code"], error["hint"]["action"]) == (2, "round_keeps_versions", "close_round")
    assert pinned_for(training, 1) == (positive,)
    # The round's own versions can be pinned again, and the task's pins and those of other rounds can change.
    assert outfox("model", "rotate", TASK, positive, "--round", 1).code == 0
    assert outfox("model", "rotate", TASK, negative).code == 0
    assert outfox("model", "rotate", TASK, negative, "--round", 2).code == 0
    assert pinned_for(training, 1) == (positive,)


def test_a_closed_round_can_be_served_by_other_versions(outfox: Outfox, training: TrainingCampaign) -> None:
    training.add_closed_round(first_round_rows())
    negative = make_version(training.models, "negative")
    assert outfox("model", "rotate", TASK, negative, "--round", 1).code == 0


def test_a_round_is_pinned_without_a_database(outfox: Outfox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    version = make_version(tmp_path / "home" / "models", "positive")
    assert outfox("model", "rotate", TASK, version, "--round", 1).code == 0


def test_the_lineage_of_a_version_that_no_round_was_played_against_is_shown(
    outfox: Outfox, training: TrainingCampaign
) -> None:
    (parent,) = training.pinned()
    child = make_version(training.models, "negative", content={"parent": parent})
    assert outfox("model", "rotate", TASK, child).code == 0
    ran = outfox("model", "lineage", TASK, "--json")
    assert ran.code == 0, ran.err
    ((first, second),) = json.loads(ran.out)["lines"]
    assert [one["version"] for one in (first, second)] == [child, parent]
    assert (first["parent"], first["base"], first["registered_at"]) == (parent, "fixed", None)
    assert child in outfox("model", "lineage", TASK, child).out


def test_a_version_whose_parent_is_missing_is_shown(outfox: Outfox, training: TrainingCampaign) -> None:
    child = make_version(training.models, "negative", content={"parent": "m000000000000"})
    ((only,),) = json.loads(outfox("model", "lineage", TASK, child, "--json").out)["lines"]
    assert only["version"] == child


def test_a_version_trained_on_the_seed_alone_has_nothing_to_compare(outfox: Outfox, training: TrainingCampaign) -> None:
    (version,) = training.pinned()
    ran = outfox("model", "lineage", TASK, "--check")
    assert (ran.code, version in ran.out) == (0, True), ran.err
    assert json.loads(outfox("model", "lineage", TASK, "--check", "--json").out)["differs"] == []


def test_each_version_of_an_ensemble_is_shown(outfox: Outfox, training: TrainingCampaign) -> None:
    both = training.pin("positive", "negative")
    lines = json.loads(outfox("model", "lineage", TASK, "--json").out)["lines"]
    assert tuple(line[0]["version"] for line in lines) == both
    shown = outfox("model", "lineage", TASK, "--check").out
    assert all(version in shown for version in both)


def test_the_exit_code_says_that_another_process_trains(outfox: Outfox, training: TrainingCampaign) -> None:
    training.add_closed_round(first_round_rows())
    with training_lock(training.store, TASK):
        by_hand = outfox("model", "retrain", TASK, "--json")
        by_manager = outfox("model", "retrain", TASK, "--token", "its own")
    assert (by_hand.failure, by_manager.code) == ((2, "training_busy"), 4)


def test_versions_that_were_not_compared_are_listed(
    outfox: Outfox, training: TrainingCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ml_backend.targets.footprint.version_peak_bytes", lambda directory: None)
    monkeypatch.setattr("round_manager.learning.training_data.LocalTrainer", lambda models, *_: FakeTrainer(models))
    (version,) = training.pinned()
    training.add_closed_round(first_round_rows())
    corrupt(training.models / TASK / version)
    ran = outfox("model", "retrain", TASK, "--json")
    assert (ran.code, list(json.loads(ran.out)["not_compared"])) == (0, [version]), ran.err
