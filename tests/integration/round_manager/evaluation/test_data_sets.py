"""The data sets of a task: its rounds and test suites, in a folder and in a bucket."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox
from ml_backend.registry.bucket import Bucket
from outfox.archives import sha256_of
from round_manager.errors import ArchiveNotFound
from round_manager.evaluation.candidates import CandidateFinder
from round_manager.evaluation.data_sets import DataSets, recorded_spec
from round_manager.services.evaluations import EvaluationOrder, EvaluationReport, evaluate_models

TASK, LABELS = "tone", ("warm", "cold")


def frame(name: str) -> pd.DataFrame:
    rows = range(6)
    return pd.DataFrame({
        "id": [f"{name}-{row}" for row in rows], "split": "held_out", "text": [f"The {name}, {row}." for row in rows],
        "label": [LABELS[row % 2] for row in rows],
    })  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made: dict[str, Any] = {"form": "csv", "source": "here", "licence": "CC0-1.0", "labels": LABELS, "inputs": ["text"]}
    for number in (1, 2):
        outfox.import_rounds(frame(f"round {number}"), TASK, rounds=number, to=tmp_path / "archives", **made)
    outfox.import_suite(frame("suite"), TASK, "exam", to=tmp_path / "archives", **made)
    return tmp_path / "archives"


def evaluated(place: str, tmp_path: Path) -> EvaluationReport:
    """Evaluate a file of predictions on all rounds and suites, on a machine that has no pack of the task."""
    spec = recorded_spec(place, TASK)
    data = DataSets(spec, place).choose(["rounds", "suites"])
    file = tmp_path / "warm.csv"
    every = pd.concat([frame(name) for name in ("round 1", "round 2", "suite")])
    every.assign(prediction="warm")[["id", "prediction"]].to_csv(file, index=False)
    models = CandidateFinder(spec).find([str(file)])
    return evaluate_models(EvaluationOrder(TASK, models, data, ("performance",), place, tmp_path / "cache"))


def test_a_task_without_a_pack_is_evaluated_in_a_bucket_as_in_a_folder(
    place: Path, bucket: str, tmp_path: Path
) -> None:
    archives = Bucket.open(bucket)
    for path in sorted(place.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                archives.upload(path.relative_to(place).as_posix(), path, sha256_of(file))
    here, there = evaluated(str(place), tmp_path), evaluated(bucket, tmp_path)
    assert {row.data for row in here.rows} == {"round 1", "round 2", "suite exam", "all"}
    assert there.rows == here.rows
    assert evaluated(bucket, tmp_path).measured == 0


def test_a_task_without_archives_is_an_error(bucket: str, tmp_path: Path) -> None:
    for place in (str(tmp_path), bucket):
        with pytest.raises(ArchiveNotFound):
            recorded_spec(place, TASK)
