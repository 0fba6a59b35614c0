import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ml_backend.training.feature_cache import Floats
from ml_backend.training.head import STRENGTHS
from ml_backend.training.logistic import fit_logistic

ROWS, WIDTH = 120, 16


@pytest.mark.parametrize("class_weights", [True, False])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_it_finds_the_weights_that_scikit_learn_finds(classes: int, class_weights: bool) -> None:
    dice = np.random.default_rng(classes)
    features = dice.normal(size=(ROWS, WIDTH)).astype(np.float32)
    # Some classes are rarer than others.
    labels = np.minimum(dice.integers(0, classes, ROWS), dice.integers(0, classes, ROWS))
    for strength in STRENGTHS:
        weights, biases = fit_logistic(features, labels, classes, strength, class_weights=class_weights)
        weighted = "balanced" if class_weights else None
        theirs = LogisticRegression(C=strength, class_weight=weighted, tol=1e-9, max_iter=10_000)
        theirs.fit(features.astype(np.float64), labels)
        assert (weights.shape, biases.shape) == ((classes, WIDTH), (classes,))
        assert _shares(features @ weights.T + biases) == pytest.approx(theirs.predict_proba(features), abs=1e-3)


def test_the_same_rows_give_the_same_weights_to_the_last_bit() -> None:
    dice = np.random.default_rng(7)
    features, labels = dice.normal(size=(ROWS, WIDTH)).astype(np.float32), dice.integers(0, 3, ROWS)
    first, second = (fit_logistic(features, labels, 3, 1.0, class_weights=True) for _ in range(2))
    assert all(np.array_equal(*both) for both in zip(first, second, strict=True))


def test_a_label_that_no_row_has_is_never_the_likeliest() -> None:
    dice = np.random.default_rng(7)
    features, labels = dice.normal(size=(ROWS, WIDTH)).astype(np.float32), dice.integers(0, 2, ROWS)
    weights, biases = fit_logistic(features, labels, 3, 1.0, class_weights=True)
    assert (features @ weights.T + biases).argmax(axis=1).max() == 1


def _shares(logits: Floats) -> Floats:
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))
