"""Evaluation of a target on rows with known answers. Every metric is in points, 0 to 100."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ml_backend.errors import EvaluationDataInvalid
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction, Target
from ml_backend.verdict import exact_match, f1_score
from templates.rows import SeedRow
from templates.spec import TaskSpec

ROWS_PER_CALL = 64

# Written to manifests as JSON: numbers, and mappings of numbers by label.
Metrics = Mapping[str, Any]


@dataclass(frozen=True)
class EvaluationResult:
    """The accuracy of labels or the F1 of spans in points, the throughput, and all metrics."""

    metric: str
    points: float
    rows: int
    rows_per_second: float
    metrics: Metrics
    predictions: Sequence[Prediction] = field(repr=False)


def evaluate(target: Target, rows: Sequence[SeedRow], spec: TaskSpec) -> Metrics:
    """Return the metrics of a target on these rows.

    Classification: rows, accuracy, macro_f1, labels (precision, recall, f1 and support of each) and confusion
    (counts by right label, then by predicted label). QA: rows, exact_match and f1, as SQuAD counts them.
    """
    return evaluate_target(target, rows, spec).metrics


def evaluate_target(
    target: Target, rows: Sequence[SeedRow], spec: TaskSpec, advance: Callable[[int], None] = lambda steps: None
) -> EvaluationResult:
    """Evaluate a target in batches and measure its throughput.

    `advance` is called with the number of rows done since the last call; it may raise to stop the evaluation.
    """
    if not rows:
        raise EvaluationDataInvalid("there are no rows to evaluate on")
    batch_size = min(ROWS_PER_CALL, target.capabilities.batch_size)
    predictions: list[Prediction] = []
    seconds = 0.0
    for first in range(0, len(rows), batch_size):
        part = rows[first : first + batch_size]
        began = time.perf_counter()
        predictions += target.predict([row.fields for row in part])
        seconds += time.perf_counter() - began
        advance(len(part))
    metrics, metric = metrics_of(rows, predictions, spec), metric_of(spec)
    speed = len(rows) / max(seconds, 1e-9)
    return EvaluationResult(metric, float(metrics[metric]), len(rows), speed, metrics, predictions)


def metric_of(spec: TaskSpec) -> str:
    """Return the name of the metric by which models of the task are compared."""
    return "f1" if spec.kind == "qa" else "accuracy"


def headline(metrics: Metrics) -> tuple[str, float]:
    """Return the name and value of the metric that early stopping watches."""
    name = "macro_f1" if "macro_f1" in metrics else "f1"
    return name, float(metrics[name])


def metrics_of(rows: Sequence[SeedRow], predictions: Sequence[Prediction], spec: TaskSpec) -> Metrics:
    """Return the metrics of predictions for these rows."""
    return span_metrics(rows, predictions) if spec.kind == "qa" else label_metrics(rows, predictions, spec.label_names)


def row_scores(rows: Sequence[SeedRow], predictions: Sequence[Prediction], spec: TaskSpec) -> list[float]:
    """Return the score of each row, 0 to 1, whose mean is the task's metric."""
    pairs = zip(rows, predictions, strict=True)
    if spec.kind == "qa":
        return [f1_score(prediction.text, str(row.answer)) for row, prediction in pairs]
    return [float(prediction.text == row.label) for row, prediction in pairs]


def exact_and_f1(answer: str, right: str) -> tuple[float, float]:
    """Return the exact match and the F1 of an answer, 0 to 1, as SQuAD counts them."""
    return float(exact_match(answer, right)), f1_score(answer, right)


def label_metrics(rows: Sequence[SeedRow], predictions: Sequence[Prediction], labels: Sequence[str]) -> Metrics:
    """Return the metrics of a classification task."""
    confusion = {right: dict.fromkeys(labels, 0) for right in labels}
    for row, prediction in zip(rows, predictions, strict=True):
        known = isinstance(prediction, LabelPrediction) and prediction.label in confusion
        if not known or row.label not in confusion:
            raise EvaluationDataInvalid(f"row {row.id} or its prediction has no label of the task")
        confusion[row.label][prediction.text] += 1
    return confusion_metrics(confusion)


def confusion_metrics(confusion: Mapping[str, Mapping[str, int]]) -> Metrics:
    """Return the metrics of a classification task from its confusion matrix."""
    by_label = {label: _label_metrics(label, confusion) for label in confusion}
    rows = sum(sum(of_right.values()) for of_right in confusion.values())
    return {
        "rows": rows,
        "accuracy": _points(sum(confusion[label][label] for label in confusion), rows),
        "macro_f1": round(sum(one["f1"] for one in by_label.values()) / len(confusion), 4),
        "labels": by_label,
        "confusion": confusion,
    }


def span_metrics(rows: Sequence[SeedRow], predictions: Sequence[Prediction]) -> Metrics:
    """Return the metrics of a QA task."""
    pairs = []
    for row, prediction in zip(rows, predictions, strict=True):
        if not isinstance(prediction, SpanPrediction) or row.answer is None:
            raise EvaluationDataInvalid(f"row {row.id} has no answer, or its prediction is not a span")
        pairs.append((prediction.text, row.answer))
    return {
        "rows": len(rows),
        "exact_match": _points(sum(exact_match(*pair) for pair in pairs), len(rows)),
        "f1": _points(sum(f1_score(*pair) for pair in pairs), len(rows)),
    }


def _label_metrics(label: str, confusion: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    right = confusion[label][label]
    support = sum(confusion[label].values())
    predicted = sum(of_right[label] for of_right in confusion.values())
    return {
        "precision": _points(right, predicted),
        "recall": _points(right, support),
        "f1": _points(2 * right, predicted + support),
        "support": support,
    }


def _points(part: float, whole: float) -> float:
    return round(100 * part / whole, 4) if whole else 0.0
