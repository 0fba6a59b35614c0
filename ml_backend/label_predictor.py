"""Classification of one text or of two."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ml_backend.answers import Answer, LabelAnswer
from ml_backend.encoding import TextEncoder, by_length
from ml_backend.errors import ModelError
from ml_backend.manifest import Manifest
from ml_backend.predictor import Row, fields_of
from ml_backend.spans import Scores
from ml_backend.text import normalise

# What bounds memory: rows that are held as tokens at a time, and what one pass through the network takes.
ROWS_AT_A_TIME = 2_048
ROWS_IN_A_PASS = 64
TOKENS_IN_A_PASS = 4_096


class LabelPredictor:
    """A Predictor whose answers are labels, with a probability for every label of the task."""

    def __init__(
        self,
        version: str,
        network: PreTrainedModel,
        encoder: TextEncoder,
        labels: Sequence[str],
        model_input: Sequence[str],
    ) -> None:
        outputs = network.config.num_labels
        if outputs != len(labels):
            raise ModelError(f"the model has {outputs} outputs for {len(labels)} labels; train it for this task")
        self.version = version
        self._network = network
        self._encoder = encoder
        self._labels = tuple(labels)
        self._model_input = tuple(model_input)

    @classmethod
    def of_manifest(
        cls, manifest: Manifest, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> "LabelPredictor":
        """The predictor of a model version of ours."""
        if task_labels(network, manifest.labels) != manifest.labels:
            raise ModelError("model.json and config.json order the labels differently; train the model again")
        encoder = TextEncoder(tokenizer, network, manifest.max_length)
        return cls(manifest.version, network, encoder, manifest.labels, manifest.model_input)

    def predict(self, rows: Sequence[Row]) -> list[Answer]:
        """One LabelAnswer for each row, in their order."""
        answers: list[Answer] = []
        for first in range(0, len(rows), ROWS_AT_A_TIME):
            texts = fields_of(rows[first : first + ROWS_AT_A_TIME], self._model_input)
            logits = self._logits([tuple(normalise(text) for text in row) for row in texts])
            answers += [self._answer(shares) for shares in softmax(logits)]
        return answers

    def _logits(self, texts: list[tuple[str, ...]]) -> Scores:
        tokens = self._encoder.texts(texts)
        logits: Scores = np.empty((len(tokens), len(self._labels)))
        with torch.inference_mode():
            for batch in by_length([len(one) for one in tokens], ROWS_IN_A_PASS, TOKENS_IN_A_PASS):
                inputs = self._encoder.tensors([tokens[place] for place in batch])
                logits[batch] = self._network(**inputs).logits.double().numpy()
        if not np.isfinite(logits).all():
            raise ModelError("the model's weights give no numbers; train it again with a lower learning_rate")
        return logits

    def _answer(self, shares: Scores) -> LabelAnswer:
        probabilities = dict(zip(self._labels, shares.tolist(), strict=True))
        return LabelAnswer(self._labels[int(shares.argmax())], probabilities)


def softmax(logits: Scores) -> Scores:
    """Probabilities along the last axis."""
    weights: Scores = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Scores = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def task_labels(network: PreTrainedModel, labels: Sequence[str]) -> tuple[str, ...]:
    """The task's labels in the order of the network's outputs."""
    named = {int(place): str(name) for place, name in (network.config.id2label or {}).items()}
    known = {label.casefold(): label for label in labels}
    order = [known.get(named.get(place, "").casefold()) for place in range(len(named))]
    if None in order or sorted(map(str, order)) != sorted(labels):
        theirs = ", ".join(named[place] for place in sorted(named))
        raise ModelError(f"the model's labels are {theirs}, the task's {', '.join(labels)}; make them equal")
    return tuple(map(str, order))
