import numpy as np
import pytest

from ml_backend.spans import SpanScores


def test_the_best_span_is_the_one_with_the_highest_sum_that_does_not_run_backwards() -> None:
    scores = SpanScores(4, longest=4)
    scores.add(0, np.array([0.0, 9.0, 0.0, 0.0]), np.array([8.0, 0.0, 5.0, 0.0]))
    best = scores.best()
    assert (best.first, best.last) == (1, 2)


def test_an_answer_is_never_longer_than_allowed() -> None:
    scores = SpanScores(6, longest=2)
    scores.add(0, np.array([9.0, 0, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 9.0]))
    best = scores.best()
    assert best.last - best.first + 1 <= 2


def test_the_probability_is_the_spans_share_of_all_allowed_spans() -> None:
    scores = SpanScores(2, longest=2)
    scores.add(0, np.zeros(2), np.zeros(2))
    assert scores.best().probability == pytest.approx(1 / 3), "three spans: the first, the second, both"


def test_a_span_in_two_windows_counts_once_at_its_best() -> None:
    scores = SpanScores(3, longest=1)
    scores.add(0, np.array([0.0, 0.0]), np.array([0.0, 0.0]))
    scores.add(1, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    best = scores.best()
    assert (best.first, best.last) == (1, 1)
    assert best.probability == pytest.approx(np.exp(2) / (np.exp(2) + 2))
