"""Classification of one text or of two."""

import math
from collections.abc import Sequence

from ml_backend.answers import Answer, LabelAnswer
from ml_backend.encoding import TextEncoder, Tokens, by_length
from ml_backend.errors import ModelError
from ml_backend.predictor import Row, fields_of
from ml_backend.runtime import Network
from ml_backend.text import normalise

# What bounds memory: rows that are held as tokens at a time, and what one pass through the network takes.
ROWS_AT_A_TIME = 2_048
ROWS_IN_A_PASS = 64
TOKENS_IN_A_PASS = 4_096


class LabelPredictor:
    """A Predictor whose answers are labels, with a probability for every label of the task."""

    def __init__(
        self, version: str, network: Network, encoder: TextEncoder, labels: Sequence[str], model_input: Sequence[str]
    ) -> None:
        self.version = version
        self._network = network
        self._encoder = encoder
        self._labels = tuple(labels)
        self._model_input = tuple(model_input)

    def predict(self, rows: Sequence[Row]) -> list[Answer]:
        """One LabelAnswer for each row, in their order."""
        answers: list[Answer] = []
        for first in range(0, len(rows), ROWS_AT_A_TIME):
            texts = fields_of(rows[first : first + ROWS_AT_A_TIME], self._model_input)
            tokens = self._encoder.texts([tuple(normalise(text) for text in row) for row in texts])
            answers += [self._answer(logits) for logits in self._logits(tokens)]
        return answers

    def _logits(self, tokens: list[Tokens]) -> list[list[float]]:
        if self._network.alone or len(tokens) == 1:
            return [self._pass([one])[0] for one in tokens]
        found: list[list[float]] = [[]] * len(tokens)
        for batch in by_length([len(one) for one in tokens], ROWS_IN_A_PASS, TOKENS_IN_A_PASS):
            for place, logits in zip(batch, self._pass([tokens[place] for place in batch]), strict=True):
                found[place] = logits
        return found

    def _pass(self, batch: list[Tokens]) -> list[list[float]]:
        (logits,) = self._network.run(self._encoder.arrays(batch))
        rows: list[list[float]] = logits.tolist()
        return rows

    def _answer(self, logits: list[float]) -> LabelAnswer:
        # Plain numbers: a row has a few labels, and a library's calls would cost more than the sums.
        if not all(map(math.isfinite, logits)):
            raise ModelError("the model's weights give no numbers; train it again with a lower learning_rate")
        highest = max(logits)
        weights = [math.exp(score - highest) for score in logits]
        whole = sum(weights)
        shares = [weight / whole for weight in weights]
        return LabelAnswer(self._labels[logits.index(highest)], dict(zip(self._labels, shares, strict=True)))
