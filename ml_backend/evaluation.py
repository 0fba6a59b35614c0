"""Measuring a predictor on rows whose right answers are known. Every figure is in points, 0 to 100."""

from collections.abc import Mapping, Sequence
from typing import Any

from ml_backend.errors import BackendError
from ml_backend.squad import exact_match, f1_score
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction, Target
from templates.rows import SeedRow
from templates.spec import TaskSpec

# What is written to manifests as JSON: numbers, and mappings of numbers by label.
Metrics = Mapping[str, Any]


def evaluate(predictor: Target, rows: Sequence[SeedRow], spec: TaskSpec) -> Metrics:
    """How well the predictor answers these rows.

    Classification: rows, accuracy, macro_f1, labels (precision, recall, f1 and support of each) and confusion
    (counts by right label, then by the model's). QA: rows, exact_match and f1, as SQuAD counts them.
    """
    if not rows:
        raise BackendError("there are no rows to measure on; give some with known answers")
    answers = predictor.predict([row.fields for row in rows])
    return span_metrics(rows, answers) if spec.kind == "qa" else label_metrics(rows, answers, spec.label_names)


def headline(metrics: Metrics) -> tuple[str, float]:
    """The one figure that stands for all, and its name; the one that early stopping watches."""
    name = "macro_f1" if "macro_f1" in metrics else "f1"
    return name, float(metrics[name])


def label_metrics(rows: Sequence[SeedRow], answers: Sequence[Prediction], labels: Sequence[str]) -> Metrics:
    """The figures of a classification task."""
    confusion = {right: dict.fromkeys(labels, 0) for right in labels}
    for row, answer in zip(rows, answers, strict=True):
        if not isinstance(answer, LabelPrediction) or row.label not in confusion or answer.label not in confusion:
            raise BackendError(f"row {row.id} or its answer has no label of the task; measure with the task's model")
        confusion[row.label][answer.label] += 1
    figures = {label: _label_figures(label, confusion) for label in labels}
    right = sum(confusion[label][label] for label in labels)
    return {
        "rows": len(rows),
        "accuracy": _points(right, len(rows)),
        "macro_f1": round(sum(one["f1"] for one in figures.values()) / len(labels), 4),
        "labels": figures,
        "confusion": confusion,
    }


def span_metrics(rows: Sequence[SeedRow], answers: Sequence[Prediction]) -> Metrics:
    """The figures of a QA task."""
    pairs = []
    for row, answer in zip(rows, answers, strict=True):
        if not isinstance(answer, SpanPrediction) or row.answer is None:
            raise BackendError(f"row {row.id} or its answer is no span; measure with the task's model")
        pairs.append((answer.text, row.answer))
    return {
        "rows": len(rows),
        "exact_match": _points(sum(exact_match(*pair) for pair in pairs), len(rows)),
        "f1": _points(sum(f1_score(*pair) for pair in pairs), len(rows)),
    }


def _label_figures(label: str, confusion: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    right = confusion[label][label]
    support = sum(confusion[label].values())
    said = sum(of_right[label] for of_right in confusion.values())
    return {
        "precision": _points(right, said),
        "recall": _points(right, support),
        "f1": _points(2 * right, said + support),
        "support": support,
    }


def _points(part: float, whole: float) -> float:
    return round(100 * part / whole, 4) if whole else 0.0
