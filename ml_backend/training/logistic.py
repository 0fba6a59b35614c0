"""Logistic regression: scikit-learn's, fitted by PyTorch, which is loaded anyway; the other takes seconds to import."""

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from ml_backend.training.feature_cache import Features, Floats

MOST_STEPS = 2_000
# Of the mean cost of a row: what is still to be gained is below what a held-out row could show.
SMALL_GRADIENT = 1e-6


def fit_logistic(
    features: Features, labels: npt.NDArray[np.int64], classes: int, strength: float, *, class_weights: bool
) -> tuple[Floats, Floats]:
    """One row of weights and one bias for each class, from the same start each time.

    The larger the strength, the more the rows count against small weights; biases may be as large as they like. With
    two classes one row is fitted, and split between them.
    """
    rows, said = torch.from_numpy(features).double(), torch.from_numpy(labels)
    seen = torch.bincount(said, minlength=classes).double()
    share = len(said) / (classes * seen.clamp(min=1)) if class_weights else torch.ones_like(seen)
    total = float((share * seen).sum())
    fitted = 1 if classes == 2 else classes
    weights = torch.zeros(fitted, rows.shape[1], dtype=torch.double, requires_grad=True)
    biases = torch.zeros(fitted, dtype=torch.double, requires_grad=True)
    search = torch.optim.LBFGS(
        [weights, biases],
        max_iter=MOST_STEPS,
        tolerance_grad=SMALL_GRADIENT,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def cost() -> torch.Tensor:
        search.zero_grad()
        logits = torch.nn.functional.linear(rows, *_of_each(weights, biases))
        mean = cross_entropy(logits, said, weight=share, reduction="sum") / total
        whole: torch.Tensor = mean + weights.square().sum() / (2 * strength * total)
        torch.autograd.backward(whole)
        return whole

    search.step(cost)
    each, bias = _of_each(weights.detach(), biases.detach())
    return each.numpy(), bias.numpy()


def _of_each(weights: torch.Tensor, biases: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if len(weights) > 1:
        return weights, biases
    return torch.cat([-weights, weights]) / 2, torch.cat([-biases, biases]) / 2
