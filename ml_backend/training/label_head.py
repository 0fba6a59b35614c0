"""Head mode for classification: logistic regression on the features of a frozen network, as its output layer."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder
from ml_backend.evaluation import headline, label_metrics
from ml_backend.targets.target import LabelPrediction
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import texts_of
from ml_backend.training.features import FeatureCache, Features, Floats, FrozenNetwork
from ml_backend.training.progress import ProgressMonitor
from ml_backend.training.start import output_layer
from templates.spec import TrainingSettings

MAX_STEPS = 2_000
# Relative to the mean cost of a row: further gains would not show in the held-out rows.
SMALL_GRADIENT = 1e-6


def fit_logistic(
    features: Features, labels: npt.NDArray[np.int64], classes: int, strength: float, *, class_weights: bool
) -> tuple[Floats, Floats]:
    """Fit scikit-learn's logistic regression with PyTorch, which is loaded anyway; return weights and biases by class.

    `strength` is the inverse of the regularisation of the weights; biases are not regularised. With two classes one row
    is fitted and split between them.
    """
    rows, right = torch.from_numpy(features).double(), torch.from_numpy(labels)
    seen = torch.bincount(right, minlength=classes).double()
    share = len(right) / (classes * seen.clamp(min=1)) if class_weights else torch.ones_like(seen)
    total = float((share * seen).sum())
    fitted = 1 if classes == 2 else classes
    weights = torch.zeros(fitted, rows.shape[1], dtype=torch.double, requires_grad=True)
    biases = torch.zeros(fitted, dtype=torch.double, requires_grad=True)
    search = torch.optim.LBFGS(
        [weights, biases],
        max_iter=MAX_STEPS,
        tolerance_grad=SMALL_GRADIENT,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def cost() -> torch.Tensor:
        search.zero_grad()
        logits = torch.nn.functional.linear(rows, *_by_class(weights, biases))
        mean = cross_entropy(logits, right, weight=share, reduction="sum") / total
        whole: torch.Tensor = mean + weights.square().sum() / (2 * strength * total)
        torch.autograd.backward(whole)
        return whole

    search.step(cost)
    each, bias = _by_class(weights.detach(), biases.detach())
    return each.numpy(), bias.numpy()


def _by_class(weights: torch.Tensor, biases: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if len(weights) > 1:
        return weights, biases
    return torch.cat([-weights, weights]) / 2, torch.cat([-biases, biases]) / 2


# From strong to weak regularisation; the held-out rows choose.
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def fit_label_head(
    network: PreTrainedModel,
    encoder: TextEncoder,
    data: TrainingData,
    settings: TrainingSettings,
    cache: Path,
    monitor: ProgressMonitor,
) -> None:
    """Fit the output layer that does best on the held-out rows."""
    names = data.spec.label_names
    store = FeatureCache(cache, output_layer(network).in_features)
    frozen = FrozenNetwork(network, encoder, store)
    keys = frozen.read(texts_of((*data.train, *data.held_out), data.spec, encoder), monitor)
    features = np.concatenate(store.get(keys))
    store.trim(keys)
    seen, unseen = features[: len(data.train)], features[len(data.train) :]
    labels = np.array([names.index(str(row.label)) for row in data.train])
    best: tuple[float, tuple[Floats, Floats]] | None = None
    monitor.start(len(STRENGTHS), "fitting the head")
    for strength in STRENGTHS:
        head = fit_logistic(seen, labels, len(names), strength, class_weights=settings.class_weights)
        points = _points(data, *head, unseen)
        if best is None or points > best[0]:
            best = (points, head)
        monitor.step(1, f"held out {best[0]:.1f}")
    monitor.finish()
    if best:
        put_into(network, *best[1])


def put_into(network: PreTrainedModel, weights: Floats, biases: Floats) -> None:
    """Copy fitted weights into the network's output layer."""
    layer = output_layer(network)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weights))
        layer.bias.copy_(torch.from_numpy(biases))


def _points(data: TrainingData, weights: Floats, biases: Floats, features: Features) -> float:
    names = data.spec.label_names
    shares = _softmax(features @ weights.T + biases)
    answers = [LabelPrediction(names[int(row.argmax())], dict(zip(names, row.tolist(), strict=True))) for row in shares]
    return headline(label_metrics(data.held_out, answers, names))[1]


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares
