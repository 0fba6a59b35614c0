"""Head mode for QA: a linear layer for start and end on the token features of a frozen network."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder
from ml_backend.errors import TrainingDataInvalid
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import SpanExample, spans_of
from ml_backend.training.features import FeatureCache, FrozenNetwork
from ml_backend.training.progress import ProgressMonitor
from ml_backend.training.start import output_layer

# Weight decay, from strong to weak; the held-out rows choose.
DECAYS = (1e-2, 1e-3, 1e-4, 1e-5)
STEPS_PER_DECAY = 40
# Bounds memory: larger sets of token states are read from the cache again at each step.
MAX_BYTES = 512 * 1024**2
ROWS_PER_BATCH = 64


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
            cost = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
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
    with torch.no_grad():
        layer.weight.copy_(weights)
        layer.bias.copy_(biases)


def _best_head(
    train: SpanBatches, held_out: SpanBatches, width: int, monitor: ProgressMonitor
) -> tuple[torch.Tensor, torch.Tensor]:
    weights = torch.zeros(2, width, requires_grad=True)
    biases = torch.zeros(2)
    best: tuple[float, torch.Tensor] | None = None
    monitor.start(len(DECAYS), "fitting the head")
    for decay in DECAYS:
        _descend(train, weights, biases, decay)
        with torch.no_grad():
            cost = float(held_out.loss(weights.detach(), biases))
        if best is None or cost < best[0]:
            best = (cost, weights.detach().clone())
        monitor.step(1, f"held out loss {best[0]:.2f}")
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
