"""Stored evaluations of models that were never asked: the figures are drawn from a seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ml_backend.evaluation.values import AxisResult, Value
from ml_backend.hashing import json_sha256
from round_manager.evaluation.storage import EvaluationStore, open_evaluations
from tests.fakes.clock import NOON

TASK = "sentiment"
METRICS = {
    "performance": ("accuracy", 40.0, 95.0),
    "throughput": ("rows_per_second", 50.0, 4_000.0),
    "calibration": ("ece", 1.0, 30.0),
    "robustness": ("consistency", 50.0, 99.0),
}


@dataclass(frozen=True)
class MeasuredData:
    """A data set, and the number of rows of each of its slices."""

    name: str
    kind: str
    rows: int = 400
    hidden: bool = False
    slices: Mapping[str, int] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        return json_sha256({"data": self.name, "rows": self.rows})


ROUNDS = (
    MeasuredData("seed", "seed"),
    MeasuredData("round 1", "round"),
    MeasuredData("round 2", "round"),
    MeasuredData("suite checks", "suite", slices={"kind: negation": 120, "kind: slang": 80, "kind: rare": 3}),
)


def store_evaluations(
    place: Path | str,
    models: Mapping[str, str],
    data: Sequence[MeasuredData] = ROUNDS,
    axes: Sequence[str] = ("performance", "throughput", "calibration"),
    *,
    task: str = TASK,
    seed: int = 0,
) -> EvaluationStore:
    """Store figures of models, by their ids with their names, on data sets; return the store."""
    store, draw = open_evaluations(str(place), task), random.Random(seed)
    for one in data:
        columns = sorted({name.partition(": ")[0] for name in one.slices})
        store.store_data_set(
            one.sha256,
            {"name": one.name, "kind": one.kind, "sha256": one.sha256, "rows": one.rows, "slices": columns,
             "hidden": one.hidden, "created_at": NOON.isoformat()},
        )  # fmt: skip
        for model in models:
            for axis in axes:
                store.store_result(one.sha256, model, axis, _result(model, one, axis, draw))
    for model, name in models.items():
        store.store_model(model, {"id": model, "name": name, "kind": "huggingface"})
    return store


def _result(model: str, data: MeasuredData, axis: str, draw: random.Random) -> dict[str, Any]:
    metric, low, high = METRICS[axis]
    values = []
    for name, rows in {"": data.rows, **data.slices}.items():
        value = draw.uniform(low, high)
        values.append(Value(metric, name, rows, value, value - 2.0, value + 2.0))
    result = AxisResult(axis, {"axis": axis, "version": 1}, metric, values)
    return {**result.as_data(), "model": model, "data": data.sha256, "measured_at": NOON.isoformat()}
