"""The calibration axis: the expected calibration error (ECE) over equal bins of confidence."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ml_backend.evaluation.answers import ScoredAnswers
from ml_backend.evaluation.performance import in_points, slices_of
from ml_backend.evaluation.values import AxisResult, Value
from outfox.intervals import REPEATS, Numbers, bootstrap

AXIS = "calibration"
BINS = 15
# For the interval, confidences are rounded to this many steps: equal outcomes are then drawn together.
STEPS = 1_000
RECIPE = {"axis": AXIS, "version": 2, "bins": BINS, "interval": "bootstrap", "repeats": REPEATS}


def calibration(answers: ScoredAnswers) -> AxisResult:
    """Return the ECE: the mean distance between confidence and share of right answers, weighted by rows per bin.

    An answer of QA is right if it is an exact match. A bootstrap sample is noisier than the data, which raises its ECE;
    the interval is extended to the value where it would lie above it.
    """
    if np.isnan(answers.confidence).any():
        return AxisResult(AXIS, RECIPE, "ece", [], note="the predictions have no confidence")
    right = answers.exact if not answers.labels else answers.score
    values = []
    for name, rows in slices_of(answers):
        if rows.any():
            values.append(_ece(name, answers.confidence[rows], right[rows]))
    return AxisResult(AXIS, RECIPE, "ece", values)


def _ece(name: str, confidence: Numbers, right: NDArray[np.float32]) -> Value:
    value = expected_calibration_error(confidence, right.astype(float), np.ones((1, len(right))))[0]
    rounded = np.round(confidence * STEPS)
    low, high = bootstrap(rounded * 2 + right, statistic=_of_outcomes)
    return in_points("ece", name, len(right), float(value), min(low, float(value)), max(high, float(value)))


def _of_outcomes(outcomes: NDArray[Any], counts: Numbers) -> Numbers:
    rounded, right = np.divmod(outcomes, 2)
    return expected_calibration_error(rounded / STEPS, right, counts)


def expected_calibration_error(confidence: Numbers, right: Numbers, counts: Numbers) -> Numbers:
    """Return the ECE of each row of counts, where `counts[i, j]` is how often the answer j occurs in draw i."""
    # A confidence on an edge is in the lower bin.
    bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], confidence, side="left")
    total = np.zeros(len(counts))
    for one in np.unique(bins):
        inside = bins == one
        total += np.abs(counts[:, inside] @ (confidence[inside] - right[inside]))
    found: Numbers = total / counts.sum(axis=1)
    return found
