"""A better starting point for small BERT encoders: one more layer, which pools a text for the output layer.

BERT's classifier reads the state of the first token. Sentence encoders put the meaning of a text into the mean of all
token states instead, and say little about the relation of two texts. So the last layer here is ordinary attention with
fixed weights: every token counts equally and the first token gets the mean; or, for two texts, half of the heads pool
one text and half the other. The result is a plain BERT without custom code.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder, Tokens
from ml_backend.targets.torch_runtime import batch_of
from ml_backend.training.features import Floats

# The layer adds the first token's own state to the pooled one; this is the weight of the pooled state.
POOLED_WEIGHT = 100.0
# Small enough that the pooler's tanh is almost linear.
POOLER_SCALE = 0.1
# Rows used to find the layer at which a token's state still shows which of the two texts it belongs to.
PROBE_ROWS = 128
MIN_SEPARATION = 0.8
TOLERANCE = 0.01
# The attention of a token of the right text relative to the other, as a power of e.
CONTRAST = 6.0


def can_pool(network: PreTrainedModel) -> bool:
    """Return whether the layer can be added: to a BERT with a pooler and an even number of heads."""
    config = network.config
    has_pooler = getattr(network.base_model, "pooler", None) is not None
    return bool(config.model_type == "bert" and has_pooler and config.num_attention_heads % 2 == 0)


def add_mean_pooling(network: PreTrainedModel) -> None:
    """Pool the mean of all token states for the output layer."""
    # No queries and no keys: every token counts equally.
    layer = _empty_layer(network)
    with torch.no_grad():
        layer.attention.self.value.weight.copy_(torch.eye(network.config.hidden_size) * POOLED_WEIGHT)
    _append(network, layer)


def add_pair_pooling(network: PreTrainedModel, encoder: TextEncoder, pairs: Sequence[Tokens]) -> None:
    """Pool the means of both texts of a pair for the output layer, each in half of the dimensions.

    Later layers of a sentence encoder mix the texts; layers after the last one that separates them well are dropped.
    """
    depth, direction = _deepest_separating_layer(network, encoder, pairs[:: max(1, len(pairs) // PROBE_ROWS)])
    if depth == 0:
        add_mean_pooling(network)
        return
    size, heads = network.config.hidden_size, network.config.num_attention_heads
    del _layers(network)[depth:]
    layer = _empty_layer(network)
    attention = layer.attention.self
    half = size // 2
    rotation, _ = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        # Both halves use the same rotation, so that the two means can be compared dimension by dimension.
        attention.value.weight[:half] = rotation[:half] * POOLED_WEIGHT
        attention.value.weight[half:] = rotation[:half] * POOLED_WEIGHT
        for head in range(heads):
            first = head * size // heads
            attention.query.bias[first] = math.sqrt(size / heads)
            attention.key.weight[first] = direction * (CONTRAST if head < heads // 2 else -CONTRAST)
    _append(network, layer)


def _layers(network: PreTrainedModel) -> Any:
    # transformers has no types for the parts of a BERT.
    bert: Any = network.base_model
    return bert.encoder.layer


def _empty_layer(network: PreTrainedModel) -> Any:
    """Return a layer that passes the first token's state through and adds what attention pools."""
    layer = copy.deepcopy(_layers(network)[-1])
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.attention.output.dense.weight.copy_(torch.eye(network.config.hidden_size))
        layer.attention.output.LayerNorm.weight.fill_(1.0)
        layer.output.LayerNorm.weight.fill_(1.0)
    return layer


def _append(network: PreTrainedModel, layer: Any) -> None:
    bert: Any = network.base_model
    layers = _layers(network)
    layers.append(layer)
    network.config.num_hidden_layers = len(layers)
    with torch.no_grad():
        bert.pooler.dense.weight.copy_(torch.eye(network.config.hidden_size) * POOLER_SCALE)
        bert.pooler.dense.bias.zero_()


def _deepest_separating_layer(
    network: PreTrainedModel, encoder: TextEncoder, pairs: Sequence[Tokens]
) -> tuple[int, torch.Tensor]:
    """Return the last layer at which a linear probe still separates the texts (0: none), and the probe's direction."""
    states: list[list[Floats]] = []
    for pair in pairs:
        with torch.inference_mode():
            output = network.base_model(**batch_of(encoder, [pair]), output_hidden_states=True)
        states.append([state[0].double().numpy() for state in output.hidden_states])
    probes = [_probe([of_row[depth] for of_row in states], pairs) for depth in range(1, len(_layers(network)) + 1)]
    best = max(share for _, share in probes)
    if best < MIN_SEPARATION:
        return 0, torch.zeros(0)
    depth = max(place for place, (_, share) in enumerate(probes, 1) if share >= best - TOLERANCE)
    return depth, torch.from_numpy(probes[depth - 1][0]).float()


def _probe(states: Sequence[Floats], pairs: Sequence[Tokens]) -> tuple[Floats, float]:
    """Return the direction that best separates the tokens of two texts, scaled to a distance of one, and its accuracy.

    Least squares rather than logistic regression: tokens of one text should be as similar as possible along it.
    """
    seen, unseen = np.concatenate(states[::2]), np.concatenate(states[1::2])
    side, unseen_side = (
        np.concatenate([np.asarray(pair.type_ids, dtype=np.float64) for pair in part])
        for part in (pairs[::2], pairs[1::2])
    )
    middle = seen.mean(axis=0)
    spread = (seen - middle).T @ (seen - middle)
    ridge = 1e-3 * np.trace(spread) / len(spread) * np.eye(len(spread))
    direction: Floats = np.linalg.solve(spread + ridge, (seen - middle).T @ (side - side.mean()))
    means = [(seen[side == which] @ direction).mean() for which in (0, 1)]
    right = (unseen @ direction > sum(means) / 2) == (unseen_side == 1)
    return direction / max(1e-6, means[1] - means[0]), float(right.mean())
