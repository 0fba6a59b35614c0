"""The sources of a version's rows: listed in its manifest, and never part of its name."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ml_backend.artefact import read_manifest
from ml_backend.errors import BackendError, EvaluationDataInvalid, ModelFileCorrupt, TrainingDataInvalid
from ml_backend.evaluation import evaluate_target, metric_of
from ml_backend.hashing import rows_sha256
from ml_backend.manifest import DataSource, TrainedManifest, card_of, trained_only, version_of
from ml_backend.training import train
from ml_backend.training.data import Recipe
from templates.spec import TrainingSettings
from tests.fakes.target import FakeTarget
from tests.unit.ml_backend.conftest import MakePack, label_row, qa_rows, quick, sentiment_rows
from tests.unit.ml_backend.test_artefact import content

SEED = {"round": None, "sha256": "3" * 64, "rows": 5, "left_out": 0}
ROUND = {"round": 1, "sha256": "4" * 64, "rows": 3, "left_out": 2}
FILES: dict[str, Any] = {"model.safetensors": {"sha256": "5" * 64, "size": 1}}


def manifest(**changed: Any) -> TrainedManifest:
    described = {**content(**changed), "files": FILES}
    return TrainedManifest.model_validate({**described, "version": version_of(described)})


def test_a_manifest_without_sources_is_read_and_keeps_its_version(tmp_path: Path) -> None:
    old = json.loads(manifest().model_dump_json())
    del old["sources"]
    folder = tmp_path / "sentiment" / old["version"]
    folder.mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps(old))
    assert trained_only(read_manifest(folder)).sources == ()


def test_the_same_rows_are_the_same_version_wherever_they_came_from() -> None:
    assert manifest(sources=[SEED, ROUND]).version == manifest().version


def test_sources_must_add_up_to_all_rows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5 rows, not 8"):
        manifest(sources=[SEED])
    spoiled = json.loads(manifest(sources=[SEED, ROUND]).model_dump_json())
    spoiled["sources"][1]["rows"] = 4
    (tmp_path / "model.json").write_text(json.dumps(spoiled))
    with pytest.raises(ModelFileCorrupt):
        read_manifest(tmp_path)


def test_the_card_lists_the_sources_of_the_rows() -> None:
    card = card_of(manifest(sources=[SEED, ROUND]))
    assert f"| of these from the seed | 5 | `{'3' * 64}` |" in card
    assert f"| of these from round 1 | 3 | `{'4' * 64}` |" in card


def test_a_recipe_recognises_only_its_own_version(make_pack: MakePack, tmp_path: Path) -> None:
    rows, pack = sentiment_rows(6), make_pack("sentiment")
    pack = dataclasses.replace(pack, spec=pack.spec.model_copy(update={"training": quick(mode="head")}))
    learned = [row for row in rows if row.split == "train"]
    source = DataSource(round=None, sha256=rows_sha256(learned, pack.spec), rows=len(learned))
    made = train(pack, tmp_path, rows=rows, sources=[source]).manifest
    assert made.sources == (source,)
    assert made.train.sha256 == source.sha256, "one source: its rows are all rows"
    assert Recipe.of(pack, rows[::-1]).made(made)
    assert not Recipe.of(pack, rows[1:]).made(made)
    assert not Recipe.of(pack, rows, "full").made(made)
    again = train(pack, tmp_path, rows=rows, mode="head")
    assert again.manifest.version == made.version


def test_a_recipe_without_rows_of_a_label_is_refused(make_pack: MakePack) -> None:
    rows = [row for row in sentiment_rows(2) if row.label != "neutral" or row.split == "held_out"]
    with pytest.raises(TrainingDataInvalid):
        Recipe.of(make_pack("sentiment"), rows)


def test_an_evaluation_covers_every_row_and_can_be_stopped(make_pack: MakePack) -> None:
    spec = make_pack("sentiment").spec
    rows = [label_row(number, "positive" if number % 2 else "negative", text="all positive") for number in range(100)]
    steps: list[int] = []
    examined = evaluate_target(FakeTarget(spec), rows, spec, steps.append)
    assert (examined.metric, examined.points, examined.rows, sum(steps)) == ("accuracy", 50.0, 100, 100)
    assert len(steps) > 1
    assert examined.rows_per_second > 0

    def stop(done: int) -> None:
        raise BackendError("enough")

    with pytest.raises(BackendError, match="enough"):
        evaluate_target(FakeTarget(spec), rows, spec, stop)
    with pytest.raises(EvaluationDataInvalid):
        evaluate_target(FakeTarget(spec), [], spec)


def test_answers_to_questions_are_compared_by_their_words(make_pack: MakePack) -> None:
    spec, rows = make_pack("qa").spec, qa_rows(3)
    examined = evaluate_target(FakeTarget(spec), rows, spec)
    assert examined.metric == metric_of(spec) == "f1"
    assert examined.points == examined.metrics["f1"]


def test_training_settings_are_part_of_a_recipe(make_pack: MakePack) -> None:
    pack, rows = make_pack("sentiment"), sentiment_rows(2)
    assert Recipe.of(pack, rows).settings == TrainingSettings.model_validate(pack.spec.training.model_dump())
    assert Recipe.of(pack, rows, "head").settings.mode == "head"
