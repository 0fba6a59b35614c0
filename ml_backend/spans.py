"""Choosing an answer's span from the scores of its start and of its end."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BestSpan:
    """The first and the last token of an answer, and the probability of just this span among all allowed ones."""

    first: int
    last: int
    probability: float


class SpanScores:
    """The score of every span of a passage that is not too long; windows that overlap count once, at their best."""

    def __init__(self, tokens: int, longest: int) -> None:
        self._scores: Scores = np.full((tokens, longest), -np.inf)

    def add(self, first: int, starts: Scores, ends: Scores) -> None:
        """Take in a window that begins at token `first` of the passage."""
        size = len(starts)
        for more in range(min(size, self._scores.shape[1])):
            here = self._scores[first : first + size - more, more]
            np.maximum(here, starts[: size - more] + ends[more:], out=here)

    def best(self) -> BestSpan:
        """The span with the highest score; the earliest and shortest of equals."""
        place = int(self._scores.argmax())
        first, more = divmod(place, self._scores.shape[1])
        highest = self._scores[first, more]
        probability = 1.0 / float(np.exp(self._scores - highest).sum())
        return BestSpan(first, first + more, probability)
