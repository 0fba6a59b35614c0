"""Bootstrap intervals of means and macro F1."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from outfox.comparison import mcnemar
from outfox.errors import InvalidArgument
from outfox.intervals import bootstrap, macro_f1_interval, paired_interval


def drawn_one_by_one(figure: Callable[[Any], Any], rows: NDArray[Any], repeats: int) -> tuple[float, float]:
    """The textbook bootstrap: draw indices of rows, compute the figure of each draw."""
    generator = np.random.default_rng(99)
    figures = [figure(rows[generator.integers(0, len(rows), len(rows))]) for _ in range(repeats)]
    low, high = np.percentile(figures, [2.5, 97.5])
    return float(low), float(high)


@pytest.mark.parametrize("right", [3, 100, 150, 198])
def test_an_interval_of_accuracy_equals_the_textbook_bootstrap(right: int) -> None:
    scores = np.repeat([1.0, 0.0], [right, 200 - right])
    assert bootstrap(scores, repeats=4_000) == pytest.approx(drawn_one_by_one(np.mean, scores, 4_000), abs=0.0101)


def test_an_interval_of_scores_between_zero_and_one_equals_the_textbook_bootstrap() -> None:
    scores = np.random.default_rng(5).beta(2, 1, 300)
    assert bootstrap(scores, repeats=4_000) == pytest.approx(drawn_one_by_one(np.mean, scores, 4_000), abs=0.005)


def macro_f1(pairs: NDArray[Any]) -> float:
    gold, predicted = pairs.T
    scores = []
    for label in range(3):
        found = int(((gold == label) & (predicted == label)).sum())
        both = int((gold == label).sum() + (predicted == label).sum())
        scores.append(2 * found / both if both else 0.0)
    return sum(scores) / 3


def test_an_interval_of_macro_f1_equals_the_textbook_bootstrap() -> None:
    generator = np.random.default_rng(3)
    gold = generator.integers(0, 3, 250)
    predicted = np.where(generator.random(250) < 0.7, gold, generator.integers(0, 3, 250))
    names = ["a", "b", "c"]
    found = macro_f1_interval([names[one] for one in gold], [names[one] for one in predicted], names, repeats=4_000)
    assert found == pytest.approx(drawn_one_by_one(macro_f1, np.array([gold, predicted]).T, 4_000), abs=0.008)


def test_an_interval_covers_the_truth_in_about_95_of_100_samples() -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for seed in range(400):
        low, high = bootstrap(generator.random(120) < 0.8, seed=seed, repeats=400)
        covered += low <= 0.8 <= high
    assert 0.9 <= covered / 400 <= 0.98


def test_an_interval_is_the_same_for_one_seed_and_for_any_order_of_rows() -> None:
    scores = np.random.default_rng(1).random(500)
    assert bootstrap(scores, seed=7) == bootstrap(scores[::-1], seed=7)
    assert bootstrap(scores, seed=7) != bootstrap(scores, seed=8)


@pytest.mark.parametrize("rows", [1, 5, 200])
def test_rows_that_are_all_right_or_all_wrong_get_the_exact_limit(rows: int) -> None:
    # Clopper-Pearson: with k = n, the lower limit solves p ** n = 0.025.
    low, high = bootstrap(np.ones(rows))
    assert low**rows == pytest.approx(0.025)
    assert high == 1.0
    assert bootstrap(np.zeros(rows)) == pytest.approx((0.0, 1 - low))


def test_equal_scores_inside_the_bounds_are_widened_to_both_sides() -> None:
    low, high = bootstrap([0.5] * 10)
    assert low == pytest.approx(0.5 - 0.5 * (1 - 0.025**0.1))
    assert high == pytest.approx(1 - low)
    assert bootstrap([12.0], bounds=None) == (12.0, 12.0)


def test_a_model_that_only_says_one_label_gets_an_interval() -> None:
    low, high = macro_f1_interval(["a", "a"], ["a", "a"], ["a", "b"])
    assert (0 < low < 0.5, 0.5 < high < 1) == (True, True)


def test_many_rows_with_different_scores_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outfox.intervals.CHUNK", 1_000)
    scores = np.random.default_rng(2).random(400)
    assert bootstrap(scores, repeats=50)[0] < scores.mean() < bootstrap(scores, repeats=50)[1]


@pytest.mark.parametrize("scores", [[], 0.5, [0.5, float("nan")], [0.5, float("inf")], ["right"]])
def test_scores_that_are_not_numbers_of_rows_are_refused(scores: object) -> None:
    with pytest.raises(InvalidArgument):
        bootstrap(scores)  # type: ignore[arg-type]


@pytest.mark.parametrize(("gold", "predicted"), [(["a"], []), (["a"], ["z"]), (["z"], ["a"])])
def test_labels_that_do_not_fit_are_refused(gold: list[str], predicted: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        macro_f1_interval(gold, predicted, ["a", "b"])


@pytest.mark.parametrize("only", [(0, 5), (0, 6), (1, 8), (1, 9), (20, 40), (25, 35), (300, 360), (3, 3)])
@pytest.mark.parametrize("level", [0.95, 0.999])
def test_a_paired_interval_excludes_zero_just_where_mcnemars_exact_test_rejects(
    only: tuple[int, int], level: float
) -> None:
    first, second = [1] * only[0] + [0] * only[1], [0] * only[0] + [1] * only[1]
    both = [1] * 500
    low, high = paired_interval(first + both, second + both, level=level)
    assert low <= (only[0] - only[1]) / (len(first) + 500) <= high
    assert (low > 0 or high < 0) == (mcnemar(*only) < 1 - level)


def test_a_paired_interval_covers_the_true_difference() -> None:
    draw = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        left, right = draw.random(150) < 0.8, draw.random(150) < 0.7
        low, high = paired_interval(left.astype(int), right.astype(int))
        inside += low <= 0.1 <= high
    assert inside >= 185
