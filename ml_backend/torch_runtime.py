"""Networks that PyTorch runs: the reference, on a GPU where there is one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ml_backend.encoding import TextEncoder, Tokens
from ml_backend.errors import ModelError
from ml_backend.manifest import Manifest
from ml_backend.network import open_network, open_tokenizer
from ml_backend.runtime import OUTPUTS, Kind, Scores, TokenArray


class TorchNetwork:
    """A Network in PyTorch, wherever the model given lies."""

    alone = False

    def __init__(self, network: PreTrainedModel, kind: Kind) -> None:
        self._network = network
        self._outputs = OUTPUTS[kind]

    def run(self, inputs: Mapping[str, TokenArray]) -> tuple[Scores, ...]:
        with torch.inference_mode():
            given = self._network(**_tensors(inputs, self._network.device))
            return tuple(given[name].float().cpu().numpy() for name in self._outputs)


def open_torch(directory: Path, manifest: Manifest) -> tuple[TorchNetwork, TextEncoder]:
    """The network and the encoder of a model version that was trained here."""
    opened = open_network(directory, manifest.kind)
    if opened.fresh:
        raise ModelError(f"{directory} lacks the weights {min(opened.fresh)}; train the model again")
    if manifest.kind == "classification" and task_labels(opened.network, manifest.labels) != manifest.labels:
        raise ModelError("model.json and config.json order the labels differently; train the model again")
    encoder = text_encoder(open_tokenizer(directory), opened.network, manifest.max_length)
    return TorchNetwork(on_best_device(opened.network), manifest.kind), encoder


def on_best_device(network: PreTrainedModel) -> PreTrainedModel:
    """The network, on a GPU where there is one."""
    movable: Any = network
    moved: PreTrainedModel = movable.to("cuda") if torch.cuda.is_available() else network
    return moved


def text_encoder(tokenizer: PreTrainedTokenizerBase, network: PreTrainedModel, max_length: int) -> TextEncoder:
    """The encoder of a network, which must be able to read so many tokens."""
    positions = getattr(network.config, "max_position_embeddings", None)
    limit = min(tokenizer.model_max_length, positions if isinstance(positions, int) else max_length)
    if max_length > limit:
        raise ModelError(f"max_length is {max_length} but this model reads {limit} tokens; lower model.max_length")
    with_types = "token_type_ids" in tokenizer.model_input_names
    return TextEncoder(tokenizer.backend_tokenizer, max_length, int(tokenizer.pad_token_id), with_types=with_types)


def batch_of(encoder: TextEncoder, tokens: Sequence[Tokens]) -> dict[str, torch.Tensor]:
    """A padded batch as PyTorch reads it, where training happens."""
    return _tensors(encoder.arrays(tokens), torch.device("cpu"))


def task_labels(network: PreTrainedModel, labels: Sequence[str]) -> tuple[str, ...]:
    """The task's labels in the order of the network's outputs."""
    named = {int(place): str(name) for place, name in (network.config.id2label or {}).items()}
    known = {label.casefold(): label for label in labels}
    order = [known.get(named.get(place, "").casefold()) for place in range(len(named))]
    if None in order or sorted(map(str, order)) != sorted(labels):
        theirs = ", ".join(named[place] for place in sorted(named))
        raise ModelError(f"the model's labels are {theirs}, the task's {', '.join(labels)}; make them equal")
    return tuple(map(str, order))


def _tensors(arrays: Mapping[str, TokenArray], device: torch.device) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
