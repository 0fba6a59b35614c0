"""The performance axis: accuracy, macro F1 and figures per label, or SQuAD's exact match and F1, with intervals."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ml_backend.evaluation.answers import ScoredAnswers
from ml_backend.evaluation.values import ALL, AxisResult, Value
from outfox.intervals import REPEATS, Numbers, Statistic, bootstrap

AXIS = "performance"
RECIPE = {"axis": AXIS, "version": 2, "interval": "bootstrap", "repeats": REPEATS}
LABEL = "label"
# A column with more values than this identifies rows instead of grouping them.
MOST_SLICES = 1_000

Mask = NDArray[np.bool_]


def performance(answers: ScoredAnswers) -> AxisResult:
    """Return the performance on all rows, on each label and on each value of the slice columns.

    The details have the confusion matrix: counts by right label, then by predicted label.
    """
    if not answers.labels:
        return AxisResult(AXIS, RECIPE, "f1", list(_span_values(answers)))
    details = {"confusion": _confusion(answers)}
    return AxisResult(AXIS, RECIPE, "accuracy", list(_label_values(answers)), details=details)


def _confusion(answers: ScoredAnswers) -> dict[str, dict[str, int]]:
    size = len(answers.labels)
    counts = np.bincount(answers.gold.astype(np.int64) * size + answers.predicted, minlength=size * size)
    rows = counts.reshape(size, size).tolist()
    return {right: dict(zip(answers.labels, row, strict=True)) for right, row in zip(answers.labels, rows, strict=True)}


def slices_of(answers: ScoredAnswers) -> Iterator[tuple[str, Mask]]:
    """Yield the name of each slice and its rows: all rows, each label, each value of the slice columns."""
    yield ALL, np.ones(len(answers), dtype=bool)
    for place, label in enumerate(answers.labels):
        yield f"{LABEL}: {label}", answers.gold == place
    for column, (codes, names) in answers.slices.items():
        for place, name in enumerate(names[:MOST_SLICES]):
            yield f"{column}: {name}", codes == place


def mean_value(metric: str, name: str, scores: NDArray[Any]) -> Value:
    """Return the mean of scores from 0 to 1 with its interval."""
    low, high = bootstrap(scores)
    return in_points(metric, name, len(scores), float(scores.mean(dtype=np.float64)), low, high)


def in_points(metric: str, name: str, count: int, value: float, low: float, high: float) -> Value:
    """Return a share and its interval in points."""
    return Value(metric, name, count, 100 * value, 100 * low, 100 * high)


def _label_values(answers: ScoredAnswers) -> Iterator[Value]:
    for name, rows in slices_of(answers):
        if rows.any():
            yield mean_value("accuracy", name, answers.score[rows])
        if name == ALL:
            yield _of_pairs("macro_f1", name, answers, len(answers), macro_f1(len(answers.labels)))
    for place, label in enumerate(answers.labels):
        support = int((answers.gold == place).sum())
        if support:
            yield _of_pairs("f1", f"{LABEL}: {label}", answers, support, label_f1(len(answers.labels), place))
        predicted = answers.predicted == place
        if predicted.any():
            yield mean_value("precision", f"{LABEL}: {label}", (answers.gold == place)[predicted])


def _span_values(answers: ScoredAnswers) -> Iterator[Value]:
    for name, rows in slices_of(answers):
        if rows.any():
            yield mean_value("f1", name, answers.score[rows])
            yield mean_value("exact_match", name, answers.exact[rows])


def _of_pairs(metric: str, name: str, answers: ScoredAnswers, count: int, statistic: Statistic) -> Value:
    # One number per pair of a right and a predicted label: equal outcomes are counted, not kept.
    pairs = answers.gold.astype(np.int64) * len(answers.labels) + answers.predicted
    outcomes, counts = np.unique(pairs, return_counts=True)
    value = float(statistic(outcomes, counts[np.newaxis].astype(float))[0])
    low, high = bootstrap(pairs, statistic=statistic)
    return in_points(metric, name, count, value, low, high)


def label_f1(labels: int, place: int) -> Statistic:
    """Return the statistic that computes the F1 of one label from counts of pairs of labels."""

    def figure(outcomes: NDArray[Any], counts: Numbers) -> Numbers:
        return _f1_by_label(outcomes, counts, labels)[:, place]

    return figure


def macro_f1(labels: int) -> Statistic:
    """Return the statistic that computes the mean F1 of all labels; one that does not occur has an F1 of 0."""

    def figure(outcomes: NDArray[Any], counts: Numbers) -> Numbers:
        found: Numbers = _f1_by_label(outcomes, counts, labels).mean(axis=1)
        return found

    return figure


def _f1_by_label(outcomes: NDArray[Any], counts: Numbers, labels: int) -> Numbers:
    right, both = np.zeros((len(counts), labels)), np.zeros((len(counts), labels))
    for pair, column in zip(outcomes.astype(int), counts.T, strict=True):
        gold, predicted = divmod(int(pair), labels)
        right[:, gold] += column * (gold == predicted)
        both[:, gold] += column
        both[:, predicted] += column
    return np.divide(2 * right, both, out=np.zeros_like(right), where=both > 0)
