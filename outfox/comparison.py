"""Paired comparison of models on the same rows, with a correction for many comparisons.

Two models that answer the same rows are compared row by row: McNemar's exact test where a row is right or wrong, and a
paired bootstrap where it has a score between 0 and 1. Holm's correction keeps the chance of any false difference among
all compared pairs at 5 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, lgamma, log

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from outfox.errors import InvalidArgument
from outfox.intervals import REPEATS, bootstrap, bootstrap_figures

ALPHA = 0.05
COLUMNS = [
    "first", "second", "n", "first_only", "second_only", "difference", "low", "high", "test", "p", "p_holm",
    "significant",
]  # fmt: skip


@dataclass(frozen=True)
class PairedDifference:
    """The mean score of one model minus that of another, its 95 % interval, and the two-sided p-value."""

    difference: float
    low: float
    high: float
    p: float


def mcnemar(first_only: int, second_only: int) -> float:
    """Return the exact two-sided p-value of McNemar's test: how many rows only one of the two models has right."""
    if min(first_only, second_only) < 0:
        raise InvalidArgument("numbers of rows cannot be negative")
    total, few = first_only + second_only, min(first_only, second_only)
    if first_only == second_only:
        return 1.0
    # The binomial tail, from its largest term down; each term is the one above times k / (total - k + 1).
    terms = np.arange(few, 0, -1, dtype=float)
    ratios = np.cumprod(terms / (total - terms + 1))
    largest = lgamma(total + 1) - lgamma(few + 1) - lgamma(total - few + 1) - total * log(2)
    return min(1.0, 2 * exp(largest) * (1 + float(ratios.sum())))


def paired_bootstrap(first: ArrayLike, second: ArrayLike, *, seed: int = 0, repeats: int = REPEATS) -> PairedDifference:
    """Compare two models by their scores (0 to 1) on the same rows, in the same order.

    The p-value is twice the share of draws in which the difference has the other sign or is zero. It is never below
    2 / (`repeats` + 1): that many draws cannot show more.
    """
    left, right = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if left.shape != right.shape or left.ndim != 1:
        raise InvalidArgument("both models need one score for each of the same rows")
    gaps = left - right
    low, high = bootstrap(gaps, seed=seed, repeats=repeats, bounds=(-1.0, 1.0))
    draws = bootstrap_figures(gaps, seed=seed, repeats=repeats)
    rarer = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    return PairedDifference(float(gaps.mean()), low, high, min(1.0, 2 * (rarer + 1) / (repeats + 1)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected by Holm's method, in the same order."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def compare_pairs(
    scores: pd.DataFrame | Mapping[str, ArrayLike], *, seed: int = 0, repeats: int = REPEATS, alpha: float = ALPHA
) -> pd.DataFrame:
    """Compare every pair of models; `scores` has a column per model and the same rows for all, from 0 to 1.

    The result has a row per pair: on how many rows only one of the two is better (`first_only`, `second_only`), the
    difference of the mean scores with its 95 % interval, the test (`mcnemar` or `bootstrap`), its p-value, the p-value
    after Holm's correction for all these pairs, and whether that is below `alpha`.
    """
    frame = _checked(scores)
    rows = []
    for first, second in combinations(frame.columns, 2):
        left, right = frame[first].to_numpy(), frame[second].to_numpy()
        paired = paired_bootstrap(left, right, seed=seed, repeats=repeats)
        only = int((left > right).sum()), int((left < right).sum())
        binary = bool(np.isin(left, (0, 1)).all() and np.isin(right, (0, 1)).all())
        rows.append({
            "first": first, "second": second, "n": len(frame), "first_only": only[0], "second_only": only[1],
            "difference": paired.difference, "low": paired.low, "high": paired.high,
            "test": "mcnemar" if binary else "bootstrap", "p": mcnemar(*only) if binary else paired.p,
        })  # fmt: skip
    corrected = holm([row["p"] for row in rows])
    for row, p_holm in zip(rows, corrected, strict=True):
        row |= {"p_holm": p_holm, "significant": p_holm < alpha}
    return pd.DataFrame(rows, columns=COLUMNS)


def _checked(scores: pd.DataFrame | Mapping[str, ArrayLike]) -> pd.DataFrame:
    try:
        frame = pd.DataFrame({name: np.asarray(scores[name], dtype=float) for name in scores})
    except (TypeError, ValueError) as error:
        raise InvalidArgument("every model needs one score for each of the same rows") from error
    if len(frame.columns) < 2 or frame.empty:
        raise InvalidArgument("a comparison needs the scores of two or more models on one row or more")
    if not frame.apply(lambda column: column.between(0, 1)).all(axis=None):
        raise InvalidArgument("every score must be a number from 0 to 1; leave out rows that a model did not answer")
    return frame
