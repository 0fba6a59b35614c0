"""Throughput and latency: warmed, repeated, with their spread, on a clock that the test moves."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from ml_backend.evaluation.speed import (
    MAX_SECONDS,
    MIN_REPEATS,
    REPEATS,
    SINGLE_ROWS,
    batched_rows_per_second,
    latency,
    percentile,
    spaced_indices,
    throughput,
)
from ml_backend.evaluation.values import AxisResult, Value
from ml_backend.targets.target import Capabilities, LabelPrediction, Prediction, Row

ROWS = [{"text": f"Row {number}."} for number in range(100)]


class TimedTarget:
    """A target that takes a known time: each call costs as many seconds as `costs` says, the last from then on."""

    version = "m1"
    capabilities = Capabilities(fields=("text",))

    def __init__(self, *costs: float, per_row: float = 0.0) -> None:
        self.now = 0.0
        self.calls = 0
        self._costs = costs
        self._per_row = per_row

    def clock(self) -> float:
        return self.now

    def predict(self, rows: Sequence[Row]) -> list[Prediction]:
        self.now += self._costs[min(self.calls, len(self._costs) - 1)] + self._per_row * len(rows)
        self.calls += 1
        return [LabelPrediction("a", {"a": 1.0}) for _ in rows]


def value(result: AxisResult, metric: str) -> Value:
    (found,) = [one for one in result.values if one.metric == metric]
    return found


def test_the_first_pass_is_not_measured_and_the_median_has_its_spread() -> None:
    # The first call loads and plans for a minute; then each repeat takes a different time.
    target = TimedTarget(60.0, 1.0, 2.0, 4.0, 5.0, 10.0)
    assert batched_rows_per_second(target, ROWS, clock=target.clock) == [100, 50, 25, 20, 10]
    target = TimedTarget(60.0, 1.0, 2.0, 4.0, 5.0, 10.0, 0.5)
    found = value(throughput(target, ROWS, clock=target.clock), "rows_per_second")
    assert (found.value, found.low, found.high, found.n) == (25, 10, 100, 100)


def test_a_slow_model_is_repeated_less_but_not_less_than_three_times() -> None:
    slow, quick = TimedTarget(MAX_SECONDS), TimedTarget(0.1)
    assert len(batched_rows_per_second(slow, ROWS, clock=slow.clock)) == MIN_REPEATS
    assert len(batched_rows_per_second(quick, ROWS, clock=quick.clock)) == REPEATS


def test_single_rows_are_timed_one_by_one() -> None:
    target = TimedTarget(0.004, per_row=0.001)
    found = latency(target, ROWS, clock=target.clock)
    assert value(found, "p50_ms").value == pytest.approx(5)
    assert value(found, "p99_ms").value == pytest.approx(5)
    assert value(found, "p50_ms").n == SINGLE_ROWS
    single = value(throughput(target, ROWS, clock=target.clock), "single_rows_per_second")
    assert single.value == pytest.approx(200)
    assert single.n == SINGLE_ROWS


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(share: float, expected: int) -> None:
    assert percentile(range(100, 0, -1), share) == expected


@pytest.mark.parametrize(("total", "wanted"), [(10, 256), (256, 256), (2_000, 256), (1_000_000, 64), (3, 1)])
def test_rows_are_spaced_evenly_and_as_many_of_each_data_set(total: int, wanted: int) -> None:
    found = sorted(spaced_indices(total, wanted))
    assert len(found) == min(total, wanted)
    assert found[0] == 0
    assert found[-1] < total
    steps = {after - before for before, after in pairwise(found)}
    assert not steps or max(steps) - min(steps) <= 1
