"""Opening and saving networks with transformers: safetensors only, no remote code, fp32, without its chatter."""

from collections.abc import Iterator, Sequence
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
from ml_backend.errors import ModelError
from ml_backend.runtime import Kind

# What transformers raises at a config, tokenizer or weights that do not fit together.
_DOES_NOT_FIT = (
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


@dataclass(frozen=True)
class Opened:
    """A network, and the names of its weights that the checkpoint did not have."""

    network: PreTrainedModel
    fresh: frozenset[str]


def open_network(directory: Path, kind: Kind, labels: Sequence[str] | None = None) -> Opened:
    """The network in a checked folder; with labels, its output layer is made to fit them.

    Weights that are missing are new ones from torch's random generator: the caller sees which in `fresh`.
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
    except _DOES_NOT_FIT as error:
        raise ModelError(f"{directory} cannot be opened as a {kind} model: {one_line(error)}") from error
    mismatched = {str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"]}
    fresh = frozenset({*info["missing_keys"], *mismatched})
    _refuse_gaps(directory, network, fresh)
    network.eval()
    return Opened(network, fresh)


def open_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in a checked folder; it must be one that can say where its tokens stand in the text."""
    try:
        with quiet():
            tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False, local_files_only=True)
    except _DOES_NOT_FIT as error:
        raise ModelError(f"the tokenizer in {directory} cannot be opened: {one_line(error)}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise ModelError(f"the tokenizer in {directory} has no fast form or no padding token; use another model")
    return tokenizer


def save_network(directory: Path, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write config, weights and tokenizer into a folder, as any program with transformers reads them."""
    try:
        with quiet():
            network.save_pretrained(directory, max_shard_size="100GB")
            tokenizer.save_pretrained(directory)
    except SafetensorError as error:
        raise ModelError(f"cannot write the weights: {one_line(error)}; free the disk or its rights") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Transformers without reports and bars; as talkative as before afterwards."""
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


def _refuse_gaps(directory: Path, network: PreTrainedModel, fresh: frozenset[str]) -> None:
    """An output layer and a pooler may be new; an encoder with random weights would only look like a model."""
    inside = network.base_model_prefix + "."
    gaps = sorted(name for name in fresh if name.startswith(inside) and "pooler" not in name)
    if gaps:
        raise ModelError(f"the weights in {directory} do not fit its config.json ({gaps[0]}); use a whole model")
