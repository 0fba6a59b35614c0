"""Predictors: what answers questions, whatever model is behind it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ml_backend.answers import Answer
from ml_backend.checkpoint import open_checkpoint
from ml_backend.errors import BackendError, ModelError
from templates.spec import TaskSpec

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


# PyTorch takes seconds to import. It is imported by those who load a model, not by those who only name predictors.


def load_predictor(directory: Path) -> Predictor:
    """The predictor of a model version that was trained here, after every file's hash was checked."""
    from ml_backend.artefact import verify
    from ml_backend.label_predictor import LabelPredictor
    from ml_backend.network import open_network, open_tokenizer
    from ml_backend.span_predictor import SpanPredictor

    manifest = verify(directory)
    opened = open_network(directory, manifest.kind)
    if opened.fresh:
        raise ModelError(f"{directory} lacks the weights {min(opened.fresh)}; train the model again")
    tokenizer = open_tokenizer(directory)
    if manifest.kind == "qa":
        return SpanPredictor.of_manifest(manifest, opened.network, tokenizer)
    return LabelPredictor.of_manifest(manifest, opened.network, tokenizer)


def open_checkpoint_predictor(base: str, spec: TaskSpec) -> Predictor:
    """A predictor of any trained transformers model whose labels are the task's, capitals aside."""
    from ml_backend.encoding import TextEncoder
    from ml_backend.label_predictor import LabelPredictor, task_labels
    from ml_backend.network import open_network, open_tokenizer
    from ml_backend.span_predictor import SpanPredictor

    checkpoint = open_checkpoint(base)
    opened = open_network(checkpoint.directory, spec.kind)
    if opened.fresh:
        raise ModelError(f"`{base}` was not trained for {spec.kind} (it has no {min(opened.fresh)}); train it first")
    encoder = TextEncoder(open_tokenizer(checkpoint.directory), opened.network, spec.model.max_length)
    version = f"c{checkpoint.sha256[:12]}"
    if spec.kind == "qa":
        return SpanPredictor(version, opened.network, encoder, spec.model_input, spec.model.doc_stride)
    labels = task_labels(opened.network, spec.label_names)
    return LabelPredictor(version, opened.network, encoder, labels, spec.model_input)


def fields_of(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, ...]]:
    """The texts of each row that a model reads, or an error that says which one is not there."""
    texts = []
    for number, row in enumerate(rows):
        for name in names:
            if not isinstance(row.get(name), str):
                raise BackendError(f"row {number} has no text in `{name}`; the model reads {', '.join(names)}")
        texts.append(tuple(row[name] for name in names))
    return texts
