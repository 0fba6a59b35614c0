"""Extractive question answering: a piece of the passage, however long the passage is."""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from ml_backend.answers import Answer, SpanAnswer
from ml_backend.encoding import TextEncoder, Window, Windows, by_length
from ml_backend.errors import BackendError, ModelError
from ml_backend.predictor import Row, fields_of
from ml_backend.runtime import Network
from ml_backend.spans import SpanScores
from ml_backend.text import Aligned, align, normalise

LONGEST_ANSWER = 30
# What bounds memory: windows that are held at a time, and what one pass through the network takes.
ROWS_AT_A_TIME = 64
WINDOWS_AT_A_TIME = 512
ROWS_IN_A_PASS = 32
TOKENS_IN_A_PASS = 4_096


class SpanPredictor:
    """A Predictor whose answers are spans of the passage as it was given."""

    def __init__(
        self,
        version: str,
        network: Network,
        encoder: TextEncoder,
        model_input: Sequence[str],
        doc_stride: int,
        longest_answer: int = LONGEST_ANSWER,
    ) -> None:
        self.version = version
        self._network = network
        self._encoder = encoder
        self._model_input = tuple(model_input)
        self._doc_stride = doc_stride
        self._longest_answer = longest_answer

    def predict(self, rows: Sequence[Row]) -> list[Answer]:
        """One SpanAnswer for each row, in their order."""
        answers: list[Answer] = []
        for first in range(0, len(rows), ROWS_AT_A_TIME):
            texts = fields_of(rows[first : first + ROWS_AT_A_TIME], self._model_input)
            answers += self._answers(texts)
        return answers

    def _answers(self, texts: list[tuple[str, ...]]) -> list[SpanAnswer]:
        passages = [align(passage) for _, passage in texts]
        questions = [normalise(question) for question, _ in texts]
        read = [
            self._encoder.windows(question, passage.text, self._doc_stride)
            for question, passage in zip(questions, passages, strict=True)
        ]
        scores = self._scores(read)
        return [
            self._answer(original, aligned, windows, of_row)
            for (_, original), aligned, windows, of_row in zip(texts, passages, read, scores, strict=True)
        ]

    def _scores(self, read: list[Windows]) -> list[SpanScores]:
        scores = [SpanScores(len(windows.offsets), self._longest_answer) for windows in read]
        todo = ((row, window) for row, windows in enumerate(read) for window in windows.windows)
        while chunk := list(islice(todo, WINDOWS_AT_A_TIME)):
            lengths = [len(window.tokens) for _, window in chunk]
            for batch in by_length(lengths, 1 if self._network.alone else ROWS_IN_A_PASS, TOKENS_IN_A_PASS):
                self._add(scores, [chunk[place] for place in batch])
        return scores

    def _add(self, scores: list[SpanScores], batch: list[tuple[int, Window]]) -> None:
        given = self._network.run(self._encoder.arrays([window.tokens for _, window in batch]))
        starts, ends = (scores.astype(np.float64) for scores in given)
        if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
            raise ModelError("the model's weights give no numbers; train it again with a lower learning_rate")
        for place, (row, window) in enumerate(batch):
            there = slice(window.place, window.place + window.size)
            scores[row].add(window.first, starts[place, there], ends[place, there])

    def _answer(self, original: str, aligned: Aligned, windows: Windows, scores: SpanScores) -> SpanAnswer:
        if not original.strip():
            raise BackendError("a passage is empty, so that nothing in it can be an answer; give one with text")
        if not windows.offsets:
            # Only characters that no model can read: all of them is the one span there is.
            return SpanAnswer(original, 0, len(original), 1.0)
        best = scores.best()
        begin, end = windows.offsets[best.first][0], windows.offsets[best.last][1]
        start, end = aligned.original(begin, max(end, begin + 1))
        start, end = _without_spaces(original, start, end)
        return SpanAnswer(original[start:end], start, end, best.probability)


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    # Some tokenizers count the space before a word as its first character.
    piece = text[start:end]
    if not piece.strip():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
