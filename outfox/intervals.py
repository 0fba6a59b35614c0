"""95 % bootstrap intervals of means and of macro F1, and intervals of paired differences.

A bootstrap draws as many rows as there are, with replacement, and repeats that. Rows with the same outcome are
interchangeable, so a draw of rows is a draw of how often each outcome occurs (multinomial). That takes a fraction of
the time and memory, and makes an interval independent of the order of the rows.

If all rows have the same outcome, every draw equals the sample, and the bootstrap would claim certainty, for one row as
for a million. Such an interval is widened by the share of rows with another outcome that could have been missed: the
exact (Clopper-Pearson) limit, `1 - 0.025 ** (1 / n)`.
"""

from collections.abc import Callable, Sequence
from math import lgamma
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outfox.errors import InvalidArgument

LEVEL = 0.95
REPEATS = 1_000
# For levels above 95 %, whose ends are rarer.
EXTREME_REPEATS = 10_000
HALVINGS = 50
# How many drawn counts are in memory at a time.
CHUNK = 1 << 22

Numbers = NDArray[np.float64]
# Takes the distinct outcomes and, for each draw, how often each occurs; returns one figure per draw.
Statistic = Callable[[NDArray[Any], Numbers], Numbers]


def mean(outcomes: NDArray[Any], counts: Numbers) -> Numbers:
    """Return the mean score of each draw."""
    found: Numbers = counts @ outcomes / counts.sum(axis=-1)
    return found


def bootstrap(
    scores: ArrayLike,
    *,
    statistic: Statistic = mean,
    seed: int = 0,
    repeats: int = REPEATS,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    level: float = LEVEL,
) -> tuple[float, float]:
    """Return the 95 % interval of a statistic of rows, by default of the mean of their scores.

    `scores` has one number per row, or one row of numbers for statistics that need several. `bounds` are the lowest and
    the highest possible value of the statistic, which limit the interval if all rows are equal; without them, both ends
    are then the value itself, because nothing is known about the spread.
    """
    outcomes, counts = np.unique(_checked(scores), axis=0, return_counts=True)
    if len(counts) == 1:
        value = float(statistic(outcomes, counts[np.newaxis].astype(float))[0])
        return _of_equal_rows(value, int(counts[0]), bounds, level)
    figures = _draws(outcomes, counts, statistic, seed, repeats)
    low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap_figures(
    scores: ArrayLike, *, statistic: Statistic = mean, seed: int = 0, repeats: int = REPEATS
) -> Numbers:
    """Return the statistic of every draw, for tests that count them."""
    outcomes, counts = np.unique(_checked(scores), axis=0, return_counts=True)
    return _draws(outcomes, counts, statistic, seed, repeats)


def paired_interval(first: ArrayLike, second: ArrayLike, *, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of the difference of the mean scores of two models on the same rows, in the same order.

    Where rows are right or wrong, it is exact (Clopper-Pearson) for the share of the first model among the rows that
    only one of the two has right: it excludes zero just where McNemar's exact test rejects. For other scores it is a
    bootstrap.
    """
    left, right = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if left.shape != right.shape or left.ndim != 1 or not len(left):
        raise InvalidArgument("both models need one score for each of the same rows")
    if not (np.isin(left, (0, 1)).all() and np.isin(right, (0, 1)).all()):
        return bootstrap(left - right, bounds=(-1.0, 1.0), level=level, repeats=EXTREME_REPEATS)
    only, total = int((left > right).sum()), int((left != right).sum())
    if not total:
        return bootstrap(left - right, bounds=(-1.0, 1.0), level=level)
    low, high = _exact_share(only, total, (1 - level) / 2), 1 - _exact_share(total - only, total, (1 - level) / 2)
    scale = total / len(left)
    return scale * (2 * low - 1), scale * (2 * high - 1)


def _exact_share(count: int, total: int, tail: float) -> float:
    """Return the largest share at which so many or more of the rows occur with at most this probability."""
    if not count:
        return 0.0
    many = np.arange(count, total + 1)
    ways = lgamma(total + 1) - np.array([lgamma(k + 1) + lgamma(total - k + 1) for k in many.tolist()])
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        share = (low + high) / 2
        terms = ways + many * np.log(share) + (total - many) * np.log1p(-share)
        low, high = (low, share) if np.exp(terms).sum() > tail else (share, high)
    return low


def macro_f1_interval(
    gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str], *, seed: int = 0, repeats: int = REPEATS
) -> tuple[float, float]:
    """Return the 95 % interval of macro F1 (0 to 1) over these labels. A label that does not occur has an F1 of 0."""
    number = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    if len(gold) != len(predicted):
        raise InvalidArgument(f"{len(gold)} gold labels have {len(predicted)} predictions; pass one for each")
    unknown = [label for label in (*gold, *predicted) if label not in number]
    if unknown:
        raise InvalidArgument(f"{unknown[0]!r} is not one of the labels {', '.join(map(repr, number))}")
    pairs = np.array([[number[one] for one in gold], [number[one] for one in predicted]], dtype=np.int64).T

    def macro_f1(outcomes: NDArray[Any], counts: Numbers) -> Numbers:
        size = len(number)
        right = np.zeros((len(counts), size))
        both = np.zeros((len(counts), size))  # Rows with the label as gold, plus rows with it as prediction.
        for (first, second), column in zip(outcomes, counts.T, strict=True):
            right[:, first] += column * (first == second)
            both[:, first] += column
            both[:, second] += column
        found: Numbers = np.divide(2 * right, both, out=np.zeros_like(right), where=both > 0).mean(axis=1)
        return found

    return bootstrap(pairs, statistic=macro_f1, seed=seed, repeats=repeats)


def _checked(scores: ArrayLike) -> NDArray[Any]:
    values = np.asarray(scores)
    if values.ndim == 0 or not len(values):
        raise InvalidArgument("an interval needs the scores of one row or more")
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise InvalidArgument("every score must be a number; leave out rows without one")
    return values if values.dtype.kind in "iu" and values.ndim > 1 else values.astype(float)


def _draws(outcomes: NDArray[Any], counts: NDArray[np.int64], statistic: Statistic, seed: int, repeats: int) -> Numbers:
    generator = np.random.default_rng(seed)
    total = int(counts.sum())
    shares = counts / total
    size = max(1, CHUNK // len(counts))
    parts = [
        statistic(outcomes, generator.multinomial(total, shares, size=min(size, repeats - first)).astype(float))
        for first in range(0, repeats, size)
    ]
    return np.concatenate(parts)


def _of_equal_rows(value: float, total: int, bounds: tuple[float, float] | None, level: float) -> tuple[float, float]:
    if bounds is None:
        return value, value
    missed = 1 - ((1 - level) / 2) ** (1 / total)
    low, high = bounds
    return value - missed * (value - low), value + missed * (high - value)
