"""The Target port: one immutable version of a model, its predictions, and what a caller may ask of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ml_backend.errors import ModelInputInvalid

Row = Mapping[str, str]


@dataclass(frozen=True)
class LabelPrediction:
    """A label, with a probability for every label of the task."""

    label: str
    probabilities: Mapping[str, float]

    @property
    def text(self) -> str:
        """The prediction as one text: the label."""
        return self.label

    @property
    def confidence(self) -> float:
        """The probability of the predicted label, 0 to 1."""
        return self.probabilities[self.label]


@dataclass(frozen=True)
class SpanPrediction:
    """A span of the passage: passage[start:end] is text."""

    text: str
    start: int
    end: int
    confidence: float

    @property
    def probabilities(self) -> Mapping[str, float]:
        """Empty: a span has no distribution over labels."""
        return {}


Prediction = LabelPrediction | SpanPrediction


@dataclass(frozen=True)
class Probe:
    """A row with the answer that the target gave when this version was made."""

    fields: Row
    answer: str


@dataclass(frozen=True)
class Capabilities:
    """What a caller may ask of a target, and at what cost.

    Args:
        fields: The fields of a row that the target reads.
        batch_size: The number of rows in a call beyond which larger calls gain nothing.
        concurrency: How many calls may run at a time; None: bound by this machine's processors.
        deadline: Seconds after which a call is given up; None: as long as the caller waits.
        warm_up: One call per entry before the target serves, with a text of that many words; empty: no warm-up.
        probes: Rows with known answers, checked wherever the version is loaded; empty: nothing to check.
        cost_per_call: An upper bound in millionths of the currency unit; None: free, because it runs here.
    """

    fields: tuple[str, ...]
    batch_size: int = 64
    concurrency: int | None = None
    deadline: float | None = None
    warm_up: tuple[int, ...] = ()
    probes: tuple[Probe, ...] = ()
    cost_per_call: int | None = None


class Target(Protocol):
    """An immutable version of a model. Threads may share it."""

    @property
    def version(self) -> str:
        """The version's id: a letter for its kind and the start of its content hash."""

    @property
    def capabilities(self) -> Capabilities:
        """What a caller may ask of this target."""

    def predict(self, rows: Sequence[Row]) -> list[Prediction]:
        """Return one prediction for each row, in their order; any number of rows, including none."""


def joint_concurrency(targets: Sequence[Target]) -> int | None:
    """Return how many calls may run at a time; None if this machine's processors bound one of the targets."""
    limits = [target.capabilities.concurrency for target in targets]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known and len(known) == len(limits) else None


def texts_of_rows(rows: Sequence[Row], fields: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the texts that a target reads of each row; raise ModelInputInvalid if one is missing."""
    texts = []
    for number, row in enumerate(rows):
        for name in fields:
            if not isinstance(row.get(name), str):
                raise ModelInputInvalid(f"row {number} has no text in `{name}`; the model reads {', '.join(fields)}")
        texts.append(tuple(row[name] for name in fields))
    return texts
