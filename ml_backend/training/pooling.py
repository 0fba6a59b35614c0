"""A better start for small BERT encoders: one more layer, which gathers a text's meaning for the output layer.

BERT's classifier reads the first token's state. Sentence encoders put a text's meaning into the mean of all token
states instead, and say little about the relation of two texts anywhere. So the last layer here is one of ordinary
attention whose weights are set, not learned: each token counts the same and the first token gets the mean; or, for
two texts, half of the heads gather the one text and half the other. The result is a plain BERT, no code of ours in it.
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
from ml_backend.training.feature_cache import Floats

# The layer adds the first token's own state to what was gathered; this makes the gathered count that much more.
GATHERED_OVER_OWN = 100.0
# Small enough that the pooler's tanh bends little.
POOLER_SCALE = 0.1
# Rows that are looked at to find where a token's state tells which of the two texts it belongs to.
ROWS_TO_LOOK_AT = 128
TELLS_APART = 0.8
AS_GOOD = 0.01
# How much more a token of the right text counts than one of the other, as a power of e.
CONTRAST = 6.0


def can_pool(network: PreTrainedModel) -> bool:
    """Whether the layer can be added: to BERT with a pooler, and with heads for two texts."""
    config = network.config
    has_pooler = getattr(network.base_model, "pooler", None) is not None
    return bool(config.model_type == "bert" and has_pooler and config.num_attention_heads % 2 == 0)


def add_mean_pooling(network: PreTrainedModel) -> None:
    """Let the output layer see the mean of all token states."""
    # No queries and no keys: every token counts the same.
    layer = _empty_layer(network)
    with torch.no_grad():
        layer.attention.self.value.weight.copy_(torch.eye(network.config.hidden_size) * GATHERED_OVER_OWN)
    _append(network, layer)


def add_pair_pooling(network: PreTrainedModel, encoder: TextEncoder, pairs: Sequence[Tokens]) -> None:
    """Let the output layer see the means of both texts of a pair, each in half of the dimensions.

    Later layers of a sentence encoder mix the texts; those after the last one that tells them apart well are dropped.
    """
    depth, direction = _deepest_that_tells_apart(network, encoder, pairs[:: max(1, len(pairs) // ROWS_TO_LOOK_AT)])
    if depth == 0:
        add_mean_pooling(network)
        return
    size, heads = network.config.hidden_size, network.config.num_attention_heads
    del _layers(network)[depth:]
    layer = _empty_layer(network)
    attention = layer.attention.self
    half = size // 2
    turned, _ = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        # Both halves are turned alike, so that the two means can be compared dimension by dimension.
        attention.value.weight[:half] = turned[:half] * GATHERED_OVER_OWN
        attention.value.weight[half:] = turned[:half] * GATHERED_OVER_OWN
        for head in range(heads):
            first = head * size // heads
            attention.query.bias[first] = math.sqrt(size / heads)
            attention.key.weight[first] = direction * (CONTRAST if head < heads // 2 else -CONTRAST)
    _append(network, layer)


def _layers(network: PreTrainedModel) -> Any:
    # Modules of transformers have no types of their own to tell mypy what a BERT is made of.
    bert: Any = network.base_model
    return bert.encoder.layer


def _empty_layer(network: PreTrainedModel) -> Any:
    """A layer that lets the first token's state through, plus what attention gathers."""
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


def _deepest_that_tells_apart(
    network: PreTrainedModel, encoder: TextEncoder, pairs: Sequence[Tokens]
) -> tuple[int, torch.Tensor]:
    """After how many layers a linear look at a token still tells its text; 0 for never. And that look."""
    states: list[list[Floats]] = []
    for pair in pairs:
        with torch.inference_mode():
            output = network.base_model(**batch_of(encoder, [pair]), output_hidden_states=True)
        states.append([state[0].double().numpy() for state in output.hidden_states])
    looks = [_look([of_row[depth] for of_row in states], pairs) for depth in range(1, len(_layers(network)) + 1)]
    best = max(share for _, share in looks)
    if best < TELLS_APART:
        return 0, torch.zeros(0)
    depth = max(place for place, (_, share) in enumerate(looks, 1) if share >= best - AS_GOOD)
    return depth, torch.from_numpy(looks[depth - 1][0]).float()


def _look(states: Sequence[Floats], pairs: Sequence[Tokens]) -> tuple[Floats, float]:
    """The direction that best separates two texts' tokens, scaled so that they lie one apart, and how well it does.

    Least squares, and not logistic regression: tokens of one text should be as alike as possible along it.
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
