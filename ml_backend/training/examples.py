"""Rows as training examples, and the loss of a network on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch.nn import functional
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder, Tokens, Window, Windows
from ml_backend.errors import TrainingDataInvalid
from ml_backend.targets.torch_runtime import batch_of
from ml_backend.text import Aligned, align, normalise
from ml_backend.training.data import TrainingData
from templates.rows import SeedRow
from templates.spec import TaskSpec


class Examples(Protocol):
    """The training rows as tokens."""

    @property
    def lengths(self) -> Sequence[int]:
        """The number of tokens of each example."""

    def weight(self, places: Sequence[int]) -> float:
        """Return the total weight of these examples."""

    def cost(self, network: PreTrainedModel, places: Sequence[int]) -> torch.Tensor:
        """Return the weighted sum of the network's losses on these examples."""


@dataclass(frozen=True)
class LabelExamples:
    """Examples of a classification task."""

    encoder: TextEncoder
    tokens: Sequence[Tokens]
    labels: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(cls, data: TrainingData, encoder: TextEncoder, *, class_weights: bool) -> "LabelExamples":
        """Return the training rows."""
        names = data.spec.label_names
        labels = torch.tensor([names.index(str(row.label)) for row in data.train])
        weights = [data.class_weights()[name] if class_weights else 1.0 for name in names]
        return cls(encoder, texts_of(data.train, data.spec, encoder), labels, torch.tensor(weights))

    @cached_property
    def lengths(self) -> Sequence[int]:
        """The number of tokens of each example."""
        return [len(one) for one in self.tokens]

    def weight(self, places: Sequence[int]) -> float:
        """Return the total weight of these examples."""
        return float(self.weights[self.labels[list(places)]].sum())

    def cost(self, network: PreTrainedModel, places: Sequence[int]) -> torch.Tensor:
        """Return the cross entropy of the labels."""
        logits = network(**batch_of(self.encoder, [self.tokens[place] for place in places])).logits
        return functional.cross_entropy(logits, self.labels[list(places)], weight=self.weights, reduction="sum")


@dataclass(frozen=True)
class SpanExample:
    """A window that holds an answer, and the positions of the answer's first and last token in it."""

    window: Window
    first: int
    last: int


@dataclass(frozen=True)
class SpanExamples:
    """Examples of a QA task."""

    encoder: TextEncoder
    spans: Sequence[SpanExample]

    @classmethod
    def of(cls, data: TrainingData, encoder: TextEncoder, doc_stride: int) -> "SpanExamples":
        """Return the training rows, each with the window that shows most context around its answer."""
        found = spans_of(data, encoder, doc_stride, held_out=False)
        if not found:
            raise TrainingDataInvalid("no answer fits into a window; raise model.max_length or mark shorter answers")
        return cls(encoder, found)

    @cached_property
    def lengths(self) -> Sequence[int]:
        """The number of tokens of each example."""
        return [len(one.window.tokens) for one in self.spans]

    def weight(self, places: Sequence[int]) -> float:
        """Return the number of examples: all have the same weight."""
        return float(len(places))

    def cost(self, network: PreTrainedModel, places: Sequence[int]) -> torch.Tensor:
        """Return the mean cross entropy of start and end among the passage's tokens."""
        batch = [self.spans[place] for place in places]
        output = network(**batch_of(self.encoder, [one.window.tokens for one in batch]))
        outside = torch.ones(output.start_logits.shape, dtype=torch.bool)
        for row, one in enumerate(batch):
            outside[row, one.window.place : one.window.place + one.window.size] = False
        starts = output.start_logits.masked_fill(outside, -1e4)
        ends = output.end_logits.masked_fill(outside, -1e4)
        first = functional.cross_entropy(starts, torch.tensor([one.first for one in batch]), reduction="sum")
        last = functional.cross_entropy(ends, torch.tensor([one.last for one in batch]), reduction="sum")
        return (first + last) / 2


def texts_of(rows: Sequence[SeedRow], spec: TaskSpec, encoder: TextEncoder) -> list[Tokens]:
    """Return the tokens that the model reads of each row."""
    return encoder.texts([tuple(normalise(row.fields[name]) for name in spec.model_input) for row in rows])


def spans_of(data: TrainingData, encoder: TextEncoder, doc_stride: int, *, held_out: bool) -> list[SpanExample]:
    """Return the training or held-out rows whose answer fits into a window, as examples."""
    asked, read = data.spec.model_input
    found = []
    for row in data.held_out if held_out else data.train:
        passage = align(row.fields[read])
        windows = encoder.windows(normalise(row.fields[asked]), passage.text, doc_stride)
        begin = row.answer_start or 0
        tokens = _tokens_of(passage, windows, begin, begin + len(row.answer or ""))
        example = _most_central(windows, *tokens) if tokens else None
        if example:
            found.append(example)
    return found


def _tokens_of(passage: Aligned, windows: Windows, begin: int, end: int) -> tuple[int, int] | None:
    """Return the first and last token that overlap original[begin:end]."""
    inside = [
        place
        for place, (start, stop) in enumerate(windows.offsets)
        if start < stop and passage.ends[stop - 1] > begin and passage.starts[start] < end
    ]
    return (inside[0], inside[-1]) if inside else None


def _most_central(windows: Windows, first: int, last: int) -> SpanExample | None:
    holding = [one for one in windows.windows if one.first <= first and last < one.first + one.size]
    if not holding:
        return None
    best = max(holding, key=lambda one: min(first - one.first, one.first + one.size - 1 - last))
    shift = best.place - best.first
    return SpanExample(best, first + shift, last + shift)
