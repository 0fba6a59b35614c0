"""Head mode: the output layer is fitted on the features of a frozen network.

For classification it is a logistic regression, for QA a linear layer for start and end on the features of each token.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder
from ml_backend.errors import TrainingDataInvalid
from ml_backend.evaluation import headline, label_metrics
from ml_backend.targets.target import LabelPrediction
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import SpanExample, spans_of, texts_of
from ml_backend.training.features import FeatureCache, Features, Floats, FrozenNetwork
from ml_backend.training.start import ProgressMonitor, output_layer
from templates.spec import TrainingSettings

MAX_STEPS = 2_000
# Relative to the mean cost of a row: further gains would not show in the held-out rows.
SMALL_GRADIENT = 1e-6
# From strong to weak regularisation; the held-out rows choose.
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Weight decay, from strong to weak; the held-out rows choose.
DECAYS = (1e-2, 1e-3, 1e-4, 1e-5)
STEPS_PER_DECAY = 40
# Bounds memory: larger sets of token states are read from the cache again at each step.
MAX_BYTES = 512 * 1024**2
ROWS_PER_BATCH = 64


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
    monitor.start(len(STRENGTHS), "Training the model's last layer")
    for strength in STRENGTHS:
        head = fit_logistic(seen, labels, len(names), strength, class_weights=settings.class_weights)
        points = _points(data, *head, unseen)
        if best is None or points > best[0]:
            best = (points, head)
        monitor.step(1, f"best so far {best[0]:.1f} points")
    monitor.finish()
    if best:
        put_into(network, *map(torch.from_numpy, best[1]))


def put_into(network: PreTrainedModel, weights: torch.Tensor, biases: torch.Tensor) -> None:
    """Copy fitted weights into the network's output layer."""
    layer = output_layer(network)
    with torch.no_grad():
        layer.weight.copy_(weights)
        layer.bias.copy_(biases)


def _points(data: TrainingData, weights: Floats, biases: Floats, features: Features) -> float:
    names = data.spec.label_names
    shares = _softmax(features @ weights.T + biases)
    answers = [LabelPrediction(names[int(row.argmax())], dict(zip(names, row.tolist(), strict=True))) for row in shares]
    return headline(label_metrics(data.held_out, answers, names))[1]


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares


class SpanBatches:
    """The windows of the training or held-out rows, with the states of their passages' tokens."""

    def __init__(self, spans: Sequence[SpanExample], keys: Sequence[bytes], store: FeatureCache, width: int) -> None:
        self._spans, self._keys, self._store = spans, keys, store
        self._kept: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] | None = None
        if sum(one.window.size for one in spans) * width * 4 <= MAX_BYTES:
            self._kept = list(self._read())

    def loss(self, weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a head; accumulate its gradient batch by batch where the weights require one."""
        total = torch.zeros(())
        for states, inside, targets in self._kept if self._kept is not None else self._read():
            logits = (states @ weights.T + biases).masked_fill(~inside[..., None], -1e4).permute(0, 2, 1)
            cost = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            cost = cost / (2 * len(self._spans))
            if weights.requires_grad:
                torch.autograd.backward(cost)
            total += cost.detach()
        return total

    def _read(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        for begin in range(0, len(self._spans), ROWS_PER_BATCH):
            spans = self._spans[begin : begin + ROWS_PER_BATCH]
            arrays = self._store.get(self._keys[begin : begin + ROWS_PER_BATCH])
            states = torch.zeros(len(spans), max(one.window.size for one in spans), arrays[0].shape[1])
            inside = torch.zeros(states.shape[:2], dtype=torch.bool)
            for row, (one, array) in enumerate(zip(spans, arrays, strict=True)):
                passage = array[one.window.place : one.window.place + one.window.size]
                states[row, : len(passage)] = torch.from_numpy(np.array(passage))
                inside[row, : len(passage)] = True
            places = [(one.first - one.window.place, one.last - one.window.place) for one in spans]
            yield states, inside, torch.tensor(places)


def fit_span_head(
    network: PreTrainedModel,
    encoder: TextEncoder,
    data: TrainingData,
    doc_stride: int,
    cache: Path,
    monitor: ProgressMonitor,
) -> None:
    """Fit the start and end layer that does best on the held-out rows."""
    layer = output_layer(network)
    store = FeatureCache(cache, layer.in_features)
    frozen = FrozenNetwork(network, encoder, store)
    parts, used = [], []
    for held_out in (False, True):
        spans = spans_of(data, encoder, doc_stride, held_out=held_out)
        if not spans:
            raise TrainingDataInvalid("no answer fits into a window; raise model.max_length or mark shorter answers")
        keys = frozen.read([one.window.tokens for one in spans], monitor)
        parts.append(SpanBatches(spans, keys, store, layer.in_features))
        used += keys
    weights, biases = _best_head(parts[0], parts[1], layer.in_features, monitor)
    # Only now: rows that do not fit in memory are read again at every step.
    store.trim(used)
    put_into(network, weights, biases)


def _best_head(
    train: SpanBatches, held_out: SpanBatches, width: int, monitor: ProgressMonitor
) -> tuple[torch.Tensor, torch.Tensor]:
    weights = torch.zeros(2, width, requires_grad=True)
    biases = torch.zeros(2)
    best: tuple[float, torch.Tensor] | None = None
    monitor.start(len(DECAYS), "Training the model's last layer")
    for decay in DECAYS:
        _descend(train, weights, biases, decay)
        with torch.no_grad():
            cost = float(held_out.loss(weights.detach(), biases))
        if best is None or cost < best[0]:
            best = (cost, weights.detach().clone())
        monitor.step(1, f"smallest loss so far {best[0]:.2f}")
    monitor.finish()
    # A bias shifts all tokens equally and changes no prediction, so it stays zero.
    return (best[1] if best else weights.detach()), biases


def _descend(train: SpanBatches, weights: torch.Tensor, biases: torch.Tensor, decay: float) -> None:
    optimiser: Any = torch.optim.LBFGS([weights], max_iter=STEPS_PER_DECAY, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = train.loss(weights, biases)
        penalty = decay * weights.square().sum()
        torch.autograd.backward(penalty)
        return loss + penalty.detach()

    optimiser.step(closure)
