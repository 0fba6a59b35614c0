"""The axes throughput and latency: rows per second in batches and one at a time, and the time that one row takes.

Every pass is repeated after a warm-up, on the same number of rows of each data set; the slowest and the fastest repeat
are reported with the median.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ml_backend.evaluation.values import ALL, AxisResult, Value
from ml_backend.targets.target import Row, Target

THROUGHPUT, LATENCY = "throughput", "latency"
ROWS = 256
SINGLE_ROWS = 64
REPEATS = 5
# A slow model is measured on fewer repeats, but never on fewer than MIN_REPEATS.
MAX_SECONDS = 60.0
MIN_REPEATS = 3
_SETTINGS = {"version": 1, "rows": ROWS, "single_rows": SINGLE_ROWS, "repeats": REPEATS}
THROUGHPUT_RECIPE = {"axis": THROUGHPUT, **_SETTINGS}
LATENCY_RECIPE = {"axis": LATENCY, **_SETTINGS}

Clock = Callable[[], float]
T = TypeVar("T")


def throughput(target: Target, rows: Sequence[Row], *, clock: Clock = time.perf_counter) -> AxisResult:
    """Return the rows per second in batches and one at a time."""
    batched = batched_rows_per_second(target, rows, clock=clock)
    single = [len(one) / max(sum(one), 1e-9) for one in _single_passes(target, rows, clock)]
    values = [
        _spread("rows_per_second", len(rows), batched),
        _spread("single_rows_per_second", min(len(rows), SINGLE_ROWS), single),
    ]
    return AxisResult(THROUGHPUT, THROUGHPUT_RECIPE, "rows_per_second", values, details={"repeats": len(batched)})


def latency(target: Target, rows: Sequence[Row], *, clock: Clock = time.perf_counter) -> AxisResult:
    """Return the median and the 99th percentile of the time that one row takes, in milliseconds."""
    passes = _single_passes(target, rows, clock)
    values = [
        _spread(name, len(passes[0]), [1_000 * percentile(one, share) for one in passes])
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99))
    ]
    return AxisResult(LATENCY, LATENCY_RECIPE, "p50_ms", values, details={"repeats": len(passes)})


def batched_rows_per_second(target: Target, rows: Sequence[Row], *, clock: Clock = time.perf_counter) -> list[float]:
    """Return the throughput of each repeat, after a warm-up on the same rows."""
    return [len(rows) / max(seconds, 1e-9) for seconds in _repeat(lambda: _seconds(target, rows, clock), clock)]


def _single_passes(target: Target, rows: Sequence[Row], clock: Clock) -> list[list[float]]:
    few = rows[:SINGLE_ROWS]
    return _repeat(lambda: [_seconds(target, [row], clock) for row in few], clock)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(share * len(ordered))) - 1]


def spaced_indices(total: int, wanted: int) -> set[int]:
    """Return the places of evenly spaced rows."""
    few = min(total, wanted)
    return {place * total // few for place in range(few)}


def _repeat(measure: Callable[[], T], clock: Clock) -> list[T]:
    measure()
    found: list[T] = []
    began = clock()
    while len(found) < REPEATS and (len(found) < MIN_REPEATS or clock() - began < MAX_SECONDS):
        found.append(measure())
    return found


def _seconds(target: Target, rows: Sequence[Row], clock: Clock) -> float:
    began = clock()
    target.predict(rows)
    return clock() - began


def _spread(metric: str, count: int, repeats: Sequence[float]) -> Value:
    return Value(metric, ALL, count, statistics.median(repeats), min(repeats), max(repeats))
