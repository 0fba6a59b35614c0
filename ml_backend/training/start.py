"""The starting point of a training (a base model with a new output layer, or a parent version), and its progress."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.progress import NoProgress, Progress
from ml_backend.artefact import verify
from ml_backend.checkpoint import open_checkpoint
from ml_backend.errors import ModelFileCorrupt, ModelMismatch, TrainingCancelled
from ml_backend.manifest import trained_only
from ml_backend.model_files import read_json_object
from ml_backend.targets.torch_runtime import open_network, open_tokenizer
from templates import Pack
from templates.spec import TaskSpec


class ProgressMonitor:
    """Forwards the progress of a training, and checks between any two steps whether it was cancelled."""

    def __init__(self, progress: Progress | None, cancel: Callable[[], bool] | None) -> None:
        self._progress = progress or NoProgress()
        self._cancel = cancel

    def start(self, total_steps: int, what: str) -> None:
        """Begin a stage."""
        self.check()
        self._progress.start(total_steps, what)

    def step(self, steps: int = 1, note: str = "") -> None:
        """Report that more steps are done; raise TrainingCancelled if the training was cancelled."""
        self._progress.advance(steps, note)
        self.check()

    def finish(self) -> None:
        """End the stage."""
        self._progress.finish()

    def check(self) -> None:
        """Raise TrainingCancelled where the training was cancelled."""
        if self._cancel and self._cancel():
            raise TrainingCancelled("training was cancelled; no model was written")


@dataclass(frozen=True)
class Start:
    """An opened network, its origin, and whether its output layer is still random."""

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    base: str
    base_sha256: str
    parent: str | None
    untrained: bool


def start_from(pack: Pack, parent: Path | None) -> Start:
    """Return the starting point of a training of this pack's model."""
    return _from_parent(parent, pack.spec) if parent else _from_base(pack)


def output_layer(network: PreTrainedModel) -> nn.Linear:
    """Return the last linear layer, which computes the scores."""
    outputs = network.config.num_labels
    layers = [one for one in network.modules() if isinstance(one, nn.Linear) and one.out_features == outputs]
    if not layers:
        raise ModelMismatch(f"{type(network).__name__} has no linear output layer; use another model as model.base")
    return layers[-1]


def _from_base(pack: Pack) -> Start:
    spec = pack.spec
    checkpoint = open_checkpoint(pack.model_base())
    opened = open_network(checkpoint.directory, spec.kind, spec.label_names or None)
    untrained = bool(opened.new_weights)
    if not untrained and spec.kind == "classification" and not _same_labels(checkpoint.directory, spec.label_names):
        # An output layer of another task, or with another order of labels, would start with wrong predictions.
        layer = output_layer(opened.network)
        nn.init.normal_(layer.weight, std=0.02)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        untrained = True
    tokenizer = open_tokenizer(checkpoint.directory)
    return Start(opened.network, tokenizer, checkpoint.name, checkpoint.sha256, None, untrained)


def _from_parent(directory: Path, spec: TaskSpec) -> Start:
    manifest = trained_only(verify(directory))
    if manifest.kind != spec.kind or len(manifest.model_input) != len(spec.model_input):
        raise ModelMismatch(
            f"parent {manifest.version} is of another kind than task {spec.name}; train without a parent"
        )
    if manifest.labels != spec.label_names:
        theirs, ours = ", ".join(manifest.labels), ", ".join(spec.label_names)
        raise ModelMismatch(f"parent {manifest.version} has labels {theirs}, the task {ours}; train without a parent")
    opened = open_network(directory, spec.kind, spec.label_names or None)
    if opened.new_weights:
        raise ModelFileCorrupt(
            f"parent {manifest.version} lacks the weights {min(opened.new_weights)}; train without a parent"
        )
    tokenizer = open_tokenizer(directory)
    return Start(opened.network, tokenizer, manifest.base, manifest.base_sha256, manifest.version, untrained=False)


def _same_labels(directory: Path, labels: Sequence[str]) -> bool:
    named = read_json_object(directory / "config.json").get("id2label")
    if not isinstance(named, dict):
        return False
    return [str(named.get(str(place))).casefold() for place in range(len(named))] == [
        name.casefold() for name in labels
    ]


def fingerprint_parts(network: PreTrainedModel) -> list[torch.Tensor]:
    """Return every weight except the output layer's: they determine the features."""
    own = {id(parameter) for parameter in output_layer(network).parameters()}
    return [parameter.detach() for parameter in network.parameters() if id(parameter) not in own]
