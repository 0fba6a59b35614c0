"""Head mode for QA: a linear layer for start and end on what the frozen network says of each token."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder
from ml_backend.errors import BackendError
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import SpanExample, spans_of
from ml_backend.training.feature_cache import FeatureCache
from ml_backend.training.features import FrozenNetwork
from ml_backend.training.progress import Watch
from ml_backend.training.start import output_layer

# How strongly the weights are pulled to zero, from much to little; the held-out part chooses.
PULLS = (1e-2, 1e-3, 1e-4, 1e-5)
STEPS_FOR_EACH = 40
# What bounds memory: token states beyond this are read from the cache again at each step.
MOST_BYTES = 512 * 1024**2
ROWS_AT_A_TIME = 64


class Part:
    """The windows of one part of the data, with the states of their passages' tokens."""

    def __init__(self, spans: Sequence[SpanExample], keys: Sequence[bytes], store: FeatureCache, width: int) -> None:
        self._spans, self._keys, self._store = spans, keys, store
        self._kept: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] | None = None
        if sum(one.window.size for one in spans) * width * 4 <= MOST_BYTES:
            self._kept = list(self._read())

    def loss(self, weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
        """The mean cost of a head, after its gradient was added up batch by batch when one is wanted."""
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
        for begin in range(0, len(self._spans), ROWS_AT_A_TIME):
            spans = self._spans[begin : begin + ROWS_AT_A_TIME]
            arrays = self._store.get(self._keys[begin : begin + ROWS_AT_A_TIME])
            states = torch.zeros(len(spans), max(one.window.size for one in spans), arrays[0].shape[1])
            inside = torch.zeros(states.shape[:2], dtype=torch.bool)
            for row, (one, array) in enumerate(zip(spans, arrays, strict=True)):
                passage = array[one.window.place : one.window.place + one.window.size]
                states[row, : len(passage)] = torch.from_numpy(np.array(passage))
                inside[row, : len(passage)] = True
            places = [(one.first - one.window.place, one.last - one.window.place) for one in spans]
            yield states, inside, torch.tensor(places)


def fit_span_head(
    network: PreTrainedModel, encoder: TextEncoder, data: TrainingData, doc_stride: int, cache: Path, watch: Watch
) -> None:
    """Give the network the start and end layer that does best on the held-out part."""
    layer = output_layer(network)
    store = FeatureCache(cache, layer.in_features)
    frozen = FrozenNetwork(network, encoder, store)
    parts, used = [], []
    for held_out in (False, True):
        spans = spans_of(data, encoder, doc_stride, held_out=held_out)
        if not spans:
            raise BackendError("no answer fits into a window; raise model.max_length or mark shorter answers")
        keys = frozen.read([one.window.tokens for one in spans], watch)
        parts.append(Part(spans, keys, store, layer.in_features))
        used += keys
    weights, biases = _best_head(parts[0], parts[1], layer.in_features, watch)
    # Only now: a part that is too large for memory is read again at every step.
    store.trim(used)
    with torch.no_grad():
        layer.weight.copy_(weights)
        layer.bias.copy_(biases)


def _best_head(train: Part, held_out: Part, width: int, watch: Watch) -> tuple[torch.Tensor, torch.Tensor]:
    weights = torch.zeros(2, width, requires_grad=True)
    biases = torch.zeros(2)
    best: tuple[float, torch.Tensor] | None = None
    watch.start(len(PULLS), "fitting the head")
    for pull in PULLS:
        _descend(train, weights, biases, pull)
        with torch.no_grad():
            cost = float(held_out.loss(weights.detach(), biases))
        if best is None or cost < best[0]:
            best = (cost, weights.detach().clone())
        watch.step(1, f"held out loss {best[0]:.2f}")
    watch.finish()
    # A bias shifts all tokens alike, so it decides nothing; it stays zero.
    return (best[1] if best else weights.detach()), biases


def _descend(train: Part, weights: torch.Tensor, biases: torch.Tensor, pull: float) -> None:
    optimiser: Any = torch.optim.LBFGS([weights], max_iter=STEPS_FOR_EACH, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = train.loss(weights, biases)
        penalty = pull * weights.square().sum()
        torch.autograd.backward(penalty)
        return loss + penalty.detach()

    optimiser.step(closure)
