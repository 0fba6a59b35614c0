"""Paired comparison of models, and Holm's correction."""

from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest

from outfox.comparison import compare_pairs, holm, mcnemar, paired_bootstrap
from outfox.errors import InvalidArgument


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (5, 0), (3, 9), (10, 10), (121, 59), (400, 700)])
def test_mcnemars_test_equals_the_exact_binomial_tail(first: int, second: int) -> None:
    total = first + second
    tail = sum(comb(total, k) for k in range(min(first, second) + 1))
    assert mcnemar(first, second) == pytest.approx(float(min(Fraction(1), Fraction(2 * tail, 2**total))), abs=1e-12)
    assert mcnemar(second, first) == mcnemar(first, second)


def test_mcnemars_test_handles_a_million_rows() -> None:
    assert mcnemar(500_000, 498_000) == pytest.approx(0.0455, abs=0.0005)  # z = 2.0
    assert mcnemar(600_000, 400_000) == 0.0


def test_holms_correction_equals_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (holm([0.9, 0.8]), holm([])) == ([1.0, 1.0], [])


def test_a_paired_bootstrap_sees_a_small_difference_that_single_intervals_hide() -> None:
    generator = np.random.default_rng(4)
    hard = generator.random(400)
    first, second = np.clip(hard + 0.02, 0, 1), hard
    found = paired_bootstrap(first, second)
    assert found.p == pytest.approx(2 / 1001)
    assert found.low > 0
    assert found.difference == pytest.approx(float((first - second).mean()))
    assert paired_bootstrap(second, first).difference == -found.difference


def test_equal_models_do_not_differ() -> None:
    found = paired_bootstrap([1, 0, 1], [1, 0, 1])
    assert (found.difference, found.p, found.low < 0 < found.high) == (0.0, 1.0, True)


def test_every_pair_is_compared_and_corrected_for_all_pairs() -> None:
    good, bad = np.repeat([1, 0], [180, 20]), np.repeat([1, 0], [120, 80])
    found = compare_pairs(pd.DataFrame({"good": good, "same": good, "bad": bad}))
    assert found[["first", "second"]].to_numpy().tolist() == [["good", "same"], ["good", "bad"], ["same", "bad"]]
    assert found["first_only"].tolist() == [0, 60, 60]
    assert (found["second_only"].tolist(), found["n"].tolist()) == ([0, 0, 0], [200, 200, 200])
    assert found["difference"].tolist() == pytest.approx([0, 0.3, 0.3])
    assert (set(found["test"]), found["significant"].tolist()) == ({"mcnemar"}, [False, True, True])
    assert found["p"].tolist() == [mcnemar(0, 0), mcnemar(60, 0), mcnemar(60, 0)]
    assert found["p_holm"].tolist() == holm(found["p"].tolist())


def test_scores_of_spans_are_compared_by_bootstrap() -> None:
    found = compare_pairs({"a": [0.5, 1.0, 0.25], "b": [0.5, 0.0, 1.0]})
    assert (found["test"].item(), found["first_only"].item(), found["second_only"].item()) == ("bootstrap", 1, 1)


@pytest.mark.parametrize(
    "scores", [{}, {"a": [1.0]}, {"a": [], "b": []}, {"a": [1.0], "b": [1.0, 0.0]}, {"a": [1.0], "b": [None]},
               {"a": [1.0], "b": [50.0]}, {"a": [1.0], "b": ["right"]}],
)  # fmt: skip
def test_scores_that_cannot_be_paired_are_refused(scores: dict[str, list[float]]) -> None:
    with pytest.raises(InvalidArgument):
        compare_pairs(scores)
