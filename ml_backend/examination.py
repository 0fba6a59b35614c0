"""An examination: how well and how fast a predictor answers rows whose right answers are known."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ml_backend.errors import BackendError
from ml_backend.evaluation import Metrics, label_metrics, span_metrics
from ml_backend.targets.target import Prediction, Target
from templates.rows import SeedRow
from templates.spec import TaskSpec

ROWS_AT_A_TIME = 64


@dataclass(frozen=True)
class Examined:
    """What came out: the accuracy of labels or the F1 of spans in points, the speed, and all figures."""

    metric: str
    points: float
    rows: int
    rows_per_second: float
    metrics: Metrics


def metric_of(spec: TaskSpec) -> str:
    """The one figure that models of the task are compared by."""
    return "f1" if spec.kind == "qa" else "accuracy"


def examine(
    predictor: Target, rows: Sequence[SeedRow], spec: TaskSpec, advance: Callable[[int], None] = lambda steps: None
) -> Examined:
    """Asks all rows, some at a time; `advance` hears how many more are answered, and may raise to stop it."""
    if not rows:
        raise BackendError("there are no rows to measure on; give some with known answers")
    answers: list[Prediction] = []
    seconds = 0.0
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        part = rows[first : first + ROWS_AT_A_TIME]
        began = time.perf_counter()
        answers += predictor.predict([row.fields for row in part])
        seconds += time.perf_counter() - began
        advance(len(part))
    found = span_metrics(rows, answers) if spec.kind == "qa" else label_metrics(rows, answers, spec.label_names)
    metric = metric_of(spec)
    return Examined(metric, float(found[metric]), len(rows), len(rows) / max(seconds, 1e-9), found)
