"""Predictors: what answers questions, whatever model is behind it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ml_backend.answers import Answer
from ml_backend.checkpoint import open_checkpoint
from ml_backend.errors import BackendError, ModelError
from ml_backend.manifest import Manifest
from ml_backend.runtime import RUNTIMES, Network
from templates.spec import TaskSpec

if TYPE_CHECKING:
    from ml_backend.encoding import TextEncoder

Row = Mapping[str, str]


class Predictor(Protocol):
    """A fixed model version that answers rows, one answer each, in their order."""

    @property
    def version(self) -> str:
        """The name of the model version that every answer comes from."""
        ...

    def predict(self, rows: Sequence[Row]) -> list[Answer]:
        """The answers to any number of rows, none included."""
        ...


# PyTorch takes seconds to import and much memory. Only those who run a model with it import it.


def load_predictor(directory: Path, runtime: str = "auto") -> Predictor:
    """The predictor of a model version that was trained here, after every file's hash was checked.

    `auto` is ONNX Runtime where the version was exported for it, otherwise PyTorch; `onnx` and `torch` insist.
    """
    from ml_backend.artefact import verify
    from ml_backend.label_predictor import LabelPredictor
    from ml_backend.span_predictor import SpanPredictor

    if runtime not in RUNTIMES:
        raise ModelError(f"there is no runtime `{runtime}`; use {', '.join(RUNTIMES)}")
    manifest = verify(directory)
    network, encoder = (
        _with_onnx(directory, manifest) if _by_onnx(manifest, runtime) else _with_torch(directory, manifest)
    )
    if manifest.kind == "qa":
        return SpanPredictor(
            manifest.version, network, encoder, manifest.model_input, manifest.doc_stride, manifest.longest_answer
        )
    return LabelPredictor(manifest.version, network, encoder, manifest.labels, manifest.model_input)


def open_checkpoint_predictor(base: str, spec: TaskSpec) -> Predictor:
    """A predictor of any trained transformers model whose labels are the task's, capitals aside."""
    from ml_backend.label_predictor import LabelPredictor
    from ml_backend.network import open_network, open_tokenizer
    from ml_backend.span_predictor import SpanPredictor
    from ml_backend.torch_runtime import TorchNetwork, on_best_device, task_labels, text_encoder

    checkpoint = open_checkpoint(base)
    opened = open_network(checkpoint.directory, spec.kind)
    if opened.fresh:
        raise ModelError(f"`{base}` was not trained for {spec.kind} (it has no {min(opened.fresh)}); train it first")
    encoder = text_encoder(open_tokenizer(checkpoint.directory), opened.network, spec.model.max_length)
    network = TorchNetwork(on_best_device(opened.network), spec.kind)
    version = f"c{checkpoint.sha256[:12]}"
    if spec.kind == "qa":
        return SpanPredictor(version, network, encoder, spec.model_input, spec.model.doc_stride)
    return LabelPredictor(version, network, encoder, task_labels(opened.network, spec.label_names), spec.model_input)


def _by_onnx(manifest: Manifest, runtime: str) -> bool:
    if runtime == "onnx" and not manifest.has_onnx:
        why = manifest.serving.why if manifest.serving else "it was trained before versions were exported"
        raise ModelError(f"version {manifest.version} has no model.onnx ({why}); use runtime auto, or train it again")
    return manifest.has_onnx and runtime != "torch"


def _with_onnx(directory: Path, manifest: Manifest) -> "tuple[Network, TextEncoder]":
    from ml_backend.onnx_runtime import open_onnx

    return open_onnx(directory, manifest.kind, len(manifest.labels), manifest.max_length)


def _with_torch(directory: Path, manifest: Manifest) -> "tuple[Network, TextEncoder]":
    from ml_backend.torch_runtime import open_torch

    return open_torch(directory, manifest)


def fields_of(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, ...]]:
    """The texts of each row that a model reads, or an error that says which one is not there."""
    texts = []
    for number, row in enumerate(rows):
        for name in names:
            if not isinstance(row.get(name), str):
                raise BackendError(f"row {number} has no text in `{name}`; the model reads {', '.join(names)}")
        texts.append(tuple(row[name] for name in names))
    return texts
