"""Models that were trained here: classification of one or two texts, and extractive question answering."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from ml_backend.encoding import Network, TextEncoder, Tokens, Window, Windows, by_length
from ml_backend.errors import ModelInputInvalid, TrainingDiverged
from ml_backend.targets.target import (
    Capabilities,
    LabelPrediction,
    Prediction,
    Probe,
    Row,
    SpanPrediction,
    texts_of_rows,
)
from ml_backend.text import Aligned, align, normalise

MAX_ANSWER_TOKENS = 30
# One short, one long, one ordinary text: the first calls of a runtime plan and allocate for what they see.
WARM_UP_WORDS = (1, 60, 8)
# These bound memory: rows or windows held as tokens at a time, and the size of one pass through the network.
LABEL_ROWS_HELD = 2_048
LABEL_ROWS_PER_PASS = 64
SPAN_ROWS_HELD = 64
SPAN_WINDOWS_HELD = 512
SPAN_ROWS_PER_PASS = 32
TOKENS_PER_PASS = 4_096

_NOT_FINITE = "the model's scores are not finite numbers; train it again with a lower learning_rate"

SpanScores = npt.NDArray[np.float64]


class TrainedClassifier:
    """A Target that predicts a label, with a probability for every label of the task."""

    def __init__(
        self,
        version: str,
        network: Network,
        encoder: TextEncoder,
        labels: Sequence[str],
        fields: Sequence[str],
        probes: Sequence[Probe] = (),
        *,
        read: Callable[[str], str] = normalise,
    ) -> None:
        self.version = version
        self.capabilities = Capabilities(tuple(fields), warm_up=WARM_UP_WORDS, probes=tuple(probes))
        self._network = network
        self._encoder = encoder
        self._labels = tuple(labels)
        self._read = read

    def predict(self, rows: Sequence[Row]) -> list[Prediction]:
        """Return one LabelPrediction for each row, in their order."""
        predictions: list[Prediction] = []
        for first in range(0, len(rows), LABEL_ROWS_HELD):
            texts = texts_of_rows(rows[first : first + LABEL_ROWS_HELD], self.capabilities.fields)
            tokens = self._encoder.texts([tuple(map(self._read, row)) for row in texts])
            predictions += [self._prediction(logits) for logits in self._logits(tokens)]
        return predictions

    def _logits(self, tokens: list[Tokens]) -> list[list[float]]:
        if self._network.one_row_at_a_time or len(tokens) == 1:
            return [self._pass([one])[0] for one in tokens]
        found: list[list[float]] = [[]] * len(tokens)
        for batch in by_length([len(one) for one in tokens], LABEL_ROWS_PER_PASS, TOKENS_PER_PASS):
            for place, logits in zip(batch, self._pass([tokens[place] for place in batch]), strict=True):
                found[place] = logits
        return found

    def _pass(self, batch: list[Tokens]) -> list[list[float]]:
        (logits,) = self._network.run(self._encoder.arrays(batch))
        rows: list[list[float]] = logits.tolist()
        return rows

    def _prediction(self, logits: list[float]) -> LabelPrediction:
        # Plain Python numbers: for a few labels, calls into a library would cost more than the sums.
        if not all(map(math.isfinite, logits)):
            raise TrainingDiverged(_NOT_FINITE)
        highest = max(logits)
        weights = [math.exp(score - highest) for score in logits]
        total = sum(weights)
        probabilities = [weight / total for weight in weights]
        label = self._labels[logits.index(highest)]
        return LabelPrediction(label, dict(zip(self._labels, probabilities, strict=True)))


class TrainedSpanFinder:
    """A Target that predicts a span of the passage, however long the passage is."""

    def __init__(
        self,
        version: str,
        network: Network,
        encoder: TextEncoder,
        fields: Sequence[str],
        doc_stride: int,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
        probes: Sequence[Probe] = (),
        *,
        read: Callable[[str], Aligned] = align,
    ) -> None:
        self.version = version
        self.capabilities = Capabilities(tuple(fields), warm_up=WARM_UP_WORDS, probes=tuple(probes))
        self._network = network
        self._encoder = encoder
        self._doc_stride = doc_stride
        self._max_answer_tokens = max_answer_tokens
        self._read = read

    def predict(self, rows: Sequence[Row]) -> list[Prediction]:
        """Return one SpanPrediction for each row, in their order."""
        predictions: list[Prediction] = []
        for first in range(0, len(rows), SPAN_ROWS_HELD):
            texts = texts_of_rows(rows[first : first + SPAN_ROWS_HELD], self.capabilities.fields)
            predictions += self._predictions(texts)
        return predictions

    def _predictions(self, texts: list[tuple[str, ...]]) -> list[SpanPrediction]:
        passages = [self._read(passage) for _, passage in texts]
        questions = [self._read(question).text for question, _ in texts]
        windows = [
            self._encoder.windows(question, passage.text, self._doc_stride)
            for question, passage in zip(questions, passages, strict=True)
        ]
        tables = self._score(windows)
        return [
            _prediction(original, aligned, of_row, table)
            for (_, original), aligned, of_row, table in zip(texts, passages, windows, tables, strict=True)
        ]

    def _score(self, windows: list[Windows]) -> list["SpanTable"]:
        tables = [SpanTable(len(of_row.offsets), self._max_answer_tokens) for of_row in windows]
        pending = ((row, window) for row, of_row in enumerate(windows) for window in of_row.windows)
        rows_per_pass = 1 if self._network.one_row_at_a_time else SPAN_ROWS_PER_PASS
        while chunk := list(islice(pending, SPAN_WINDOWS_HELD)):
            lengths = [len(window.tokens) for _, window in chunk]
            for batch in by_length(lengths, rows_per_pass, TOKENS_PER_PASS):
                self._add(tables, [chunk[place] for place in batch])
        return tables

    def _add(self, tables: list["SpanTable"], batch: list[tuple[int, Window]]) -> None:
        outputs = self._network.run(self._encoder.arrays([window.tokens for _, window in batch]))
        starts, ends = (scores.astype(np.float64) for scores in outputs)
        if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
            raise TrainingDiverged(_NOT_FINITE)
        for place, (row, window) in enumerate(batch):
            there = slice(window.place, window.place + window.size)
            tables[row].add(window.first, starts[place, there], ends[place, there])


@dataclass(frozen=True)
class BestSpan:
    """The first and last token of an answer, and the probability of this span among all allowed ones."""

    first: int
    last: int
    probability: float


class SpanTable:
    """The score of every span of a passage up to a length; spans in overlapping windows keep their best score."""

    def __init__(self, tokens: int, max_span_tokens: int) -> None:
        self._scores: SpanScores = np.full((tokens, max_span_tokens), -np.inf)

    def add(self, first: int, starts: SpanScores, ends: SpanScores) -> None:
        """Add the scores of a window that begins at token `first` of the passage."""
        size = len(starts)
        for more in range(min(size, self._scores.shape[1])):
            here = self._scores[first : first + size - more, more]
            np.maximum(here, starts[: size - more] + ends[more:], out=here)

    def best(self) -> BestSpan:
        """Return the span with the highest score; of equal ones the earliest and shortest."""
        place = int(self._scores.argmax())
        first, more = divmod(place, self._scores.shape[1])
        highest = self._scores[first, more]
        probability = 1.0 / float(np.exp(self._scores - highest).sum())
        return BestSpan(first, first + more, probability)


def _prediction(original: str, aligned: Aligned, windows: Windows, table: SpanTable) -> SpanPrediction:
    if not original.strip():
        raise ModelInputInvalid("the passage is empty, so there is no span to predict")
    if not windows.offsets:
        # The passage has only characters that the tokenizer drops: the whole of it is the only span.
        return SpanPrediction(original, 0, len(original), 1.0)
    best = table.best()
    begin, end = windows.offsets[best.first][0], windows.offsets[best.last][1]
    start, end = aligned.original(begin, max(end, begin + 1))
    start, end = _without_spaces(original, start, end)
    return SpanPrediction(original[start:end], start, end, best.probability)


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    # Some tokenizers count the space before a word as its first character.
    piece = text[start:end]
    if not piece.strip():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
