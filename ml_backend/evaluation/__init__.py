"""Evaluation of models on rows with known answers. Nothing here knows a database."""

from ml_backend.evaluation.metrics import (
    EvaluationResult,
    Metrics,
    evaluate,
    evaluate_target,
    headline,
    label_metrics,
    metric_of,
    metrics_of,
    row_scores,
    span_metrics,
)

__all__ = [
    "EvaluationResult", "Metrics", "evaluate", "evaluate_target", "headline", "label_metrics", "metric_of",
    "metrics_of", "row_scores", "span_metrics",
]  # fmt: skip
