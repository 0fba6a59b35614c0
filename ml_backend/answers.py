"""What a model says to one question."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LabelAnswer:
    """A label, with a probability for every label of the task."""

    label: str
    probabilities: Mapping[str, float]

    @property
    def confidence(self) -> float:
        """How sure the model is of its label, 0 to 1."""
        return self.probabilities[self.label]


@dataclass(frozen=True)
class SpanAnswer:
    """A piece of the passage: passage[start:end] is text."""

    text: str
    start: int
    end: int
    confidence: float


Answer = LabelAnswer | SpanAnswer
