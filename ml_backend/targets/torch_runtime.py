"""Networks that PyTorch runs: opened from safetensors with transformers, in fp32, without remote code."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as untyped_logging

from common.errors import one_line
from ml_backend.encoding import OUTPUTS, Kind, Scores, TextEncoder, TokenArray, Tokens
from ml_backend.errors import ModelFileCorrupt, ModelFileNotWritable, ModelMismatch
from ml_backend.manifest import TrainedManifest

# What transformers raises for a config, tokenizer or weights that do not fit together.
_LOADING_ERRORS = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,
    TypeError,
    ValueError,
)


class TorchNetwork:
    """A Network in PyTorch, on the device of the model that it is given."""

    one_row_at_a_time = False

    def __init__(self, network: PreTrainedModel, kind: Kind) -> None:
        self._network = network
        self._outputs = OUTPUTS[kind]

    def run(self, inputs: Mapping[str, TokenArray]) -> tuple[Scores, ...]:
        with torch.inference_mode():
            outputs = self._network(**_tensors(inputs, self._network.device))
            return tuple(outputs[name].float().cpu().numpy() for name in self._outputs)


@dataclass(frozen=True)
class OpenedNetwork:
    """A network, and the names of its weights that the checkpoint did not have."""

    network: PreTrainedModel
    new_weights: frozenset[str]


def open_torch(directory: Path, manifest: TrainedManifest) -> tuple[TorchNetwork, TextEncoder]:
    """Return the network and the encoder of a model version that was trained here."""
    opened = open_network(directory, manifest.kind)
    if opened.new_weights:
        raise ModelFileCorrupt(f"{directory} lacks the weights {min(opened.new_weights)}; train the model again")
    if manifest.kind == "classification" and task_labels(opened.network, manifest.labels) != manifest.labels:
        raise ModelFileCorrupt("model.json and config.json order the labels differently; train the model again")
    encoder = text_encoder(open_tokenizer(directory), opened.network, manifest.max_length)
    return TorchNetwork(on_best_device(opened.network), manifest.kind), encoder


def open_network(directory: Path, kind: Kind, labels: Sequence[str] | None = None) -> OpenedNetwork:
    """Open the network in a checked folder; with `labels`, its output layer is made to fit them.

    Missing weights are initialised from torch's random generator and listed in `new_weights`.
    """
    auto: Any = AutoModelForQuestionAnswering if kind == "qa" else AutoModelForSequenceClassification
    try:
        with quiet():
            config = AutoConfig.from_pretrained(directory, trust_remote_code=False, local_files_only=True)
            if kind == "qa":
                config.num_labels = 2
            elif labels is not None:
                _set_labels(config, labels)
            network, info = auto.from_pretrained(
                directory,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except _LOADING_ERRORS as error:
        raise ModelFileCorrupt(f"{directory} cannot be opened as a {kind} model: {one_line(error)}") from error
    mismatched = {str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"]}
    new_weights = frozenset({*info["missing_keys"], *mismatched})
    _refuse_gaps(directory, network, new_weights)
    network.eval()
    return OpenedNetwork(network, new_weights)


def open_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer in a checked folder; it must be a fast one, which knows the position of each token."""
    try:
        with quiet():
            tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False, local_files_only=True)
    except _LOADING_ERRORS as error:
        raise ModelFileCorrupt(f"the tokenizer in {directory} cannot be opened: {one_line(error)}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise ModelMismatch(f"the tokenizer in {directory} has no fast form or no padding token; use another model")
    return tokenizer


def save_network(directory: Path, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write config, weights and tokenizer into a folder that transformers can read."""
    try:
        with quiet():
            network.save_pretrained(directory, max_shard_size="100GB")
            tokenizer.save_pretrained(directory)
    except SafetensorError as error:
        raise ModelFileNotWritable(
            f"cannot write the weights: {one_line(error)}; check disk space and permissions"
        ) from error


def on_best_device(network: PreTrainedModel) -> PreTrainedModel:
    """Move the network to a GPU where there is one."""
    movable: Any = network
    moved: PreTrainedModel = movable.to("cuda") if torch.cuda.is_available() else network
    return moved


def text_encoder(tokenizer: PreTrainedTokenizerBase, network: PreTrainedModel, max_length: int) -> TextEncoder:
    """Return the encoder of a network; raise ModelMismatch if the network cannot read `max_length` tokens."""
    positions = getattr(network.config, "max_position_embeddings", None)
    limit = min(tokenizer.model_max_length, positions if isinstance(positions, int) else max_length)
    if max_length > limit:
        raise ModelMismatch(f"max_length is {max_length} but this model reads {limit} tokens; lower model.max_length")
    with_types = "token_type_ids" in tokenizer.model_input_names
    return TextEncoder(tokenizer.backend_tokenizer, max_length, int(tokenizer.pad_token_id), with_types=with_types)


def batch_of(encoder: TextEncoder, tokens: Sequence[Tokens]) -> dict[str, torch.Tensor]:
    """Return a padded batch as tensors on the CPU, where training happens."""
    return _tensors(encoder.arrays(tokens), torch.device("cpu"))


def task_labels(network: PreTrainedModel, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the task's labels in the order of the network's outputs."""
    named = {int(place): str(name) for place, name in (network.config.id2label or {}).items()}
    known = {label.casefold(): label for label in labels}
    order = [known.get(named.get(place, "").casefold()) for place in range(len(named))]
    if None in order or sorted(map(str, order)) != sorted(labels):
        theirs = ", ".join(named[place] for place in sorted(named))
        raise ModelMismatch(f"the model's labels are {theirs}, the task's {', '.join(labels)}; make them equal")
    return tuple(map(str, order))


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the reports and progress bars of transformers inside the block."""
    transformers_logging: Any = untyped_logging
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def _set_labels(config: Any, labels: Sequence[str]) -> None:
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: place for place, label in enumerate(labels)}
    config.problem_type = "single_label_classification"


def _refuse_gaps(directory: Path, network: PreTrainedModel, new_weights: frozenset[str]) -> None:
    """Raise where encoder weights are missing; only an output layer and a pooler may be new."""
    inside = network.base_model_prefix + "."
    gaps = sorted(name for name in new_weights if name.startswith(inside) and "pooler" not in name)
    if gaps:
        raise ModelFileCorrupt(
            f"the weights in {directory} do not fit its config.json ({gaps[0]}); use a complete model"
        )


def _tensors(arrays: Mapping[str, TokenArray], device: torch.device) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
