"""Texts as token arrays, and the Network protocol that reads them. Everything here is immutable and thread-safe."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from ml_backend.errors import ModelFileCorrupt
from ml_backend.words import WordTokens

FILE = "tokenizer.json"

Kind = Literal["classification", "qa"]
TokenArray = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

# The outputs of a network of each kind, in this order.
OUTPUTS: Mapping[Kind, tuple[str, ...]] = {"classification": ("logits",), "qa": ("start_logits", "end_logits")}


class Network(Protocol):
    """An immutable network that PyTorch or ONNX Runtime runs. Threads may share it."""

    @property
    def one_row_at_a_time(self) -> bool:
        """Whether rows must not share a batch, because a row's scores would depend on the other rows."""

    def run(self, inputs: Mapping[str, TokenArray]) -> tuple[Scores, ...]:
        """Return the network's outputs for a batch; raise ModelError if it cannot run."""


@dataclass(frozen=True)
class Tokens:
    """The token ids of one input of a network."""

    ids: Sequence[int]
    type_ids: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Window:
    """A question with one part of its passage: tokens[place + i] is token first + i of the whole passage."""

    tokens: Tokens
    place: int
    first: int
    size: int


@dataclass(frozen=True)
class Windows:
    """A question with its whole passage in overlapping windows; `offsets` are those of the passage's tokens."""

    windows: Sequence[Window]
    offsets: Sequence[tuple[int, int]]


class TextEncoder:
    """Tokenizes texts for one network, at most `max_length` tokens at a time."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, pad_id: int, *, with_types: bool) -> None:
        # A copy, because padding and truncation are mutable settings of the tokenizer.
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.max_length = max_length
        self.pad_id = pad_id
        self._with_types = with_types
        self._words = WordTokens.of(self._tokenizer)

    def texts(self, rows: Sequence[tuple[str, ...]]) -> list[Tokens]:
        """Tokenize rows of one or two texts; rows that are too long are truncated, the longer text first."""
        found = [self._row(rows[0])] if len(rows) == 1 else self._batch(rows)
        return [
            tokens if len(tokens) <= self.max_length else self._truncated(row)
            for tokens, row in zip(found, rows, strict=True)
        ]

    def _row(self, texts: tuple[str, ...]) -> Tokens:
        if self._words is not None:
            return Tokens(*self._words.encode(texts))
        # A batch of one would start the tokenizer's thread pool.
        first, second = texts if len(texts) == 2 else (texts[0], None)
        return _tokens(self._tokenizer.encode(first, second))

    def _batch(self, rows: Sequence[tuple[str, ...]]) -> list[Tokens]:
        encoded = self._tokenizer.encode_batch_fast([row[0] if len(row) == 1 else row for row in rows])
        return [_tokens(encoding) for encoding in encoded]

    def windows(self, question: str, passage: str, stride: int) -> Windows:
        """Split the passage into windows, each after the question and overlapping the previous by `stride` tokens."""
        asked = self._tokenizer.encode(question, add_special_tokens=False)
        room = self.max_length - self._tokenizer.num_special_tokens_to_add(is_pair=True)
        asked.truncate(room // 2)
        room -= len(asked)
        read = self._tokenizer.encode(passage, add_special_tokens=False)
        offsets = read.offsets
        stride = min(stride, room // 2)
        read.truncate(room, stride=stride)
        windows = []
        for number, part in enumerate([read, *read.overflowing]):
            both = self._tokenizer.post_process(asked, part, True)
            if len(part):
                windows.append(Window(_tokens(both), both.sequence_ids.index(1), number * (room - stride), len(part)))
        return Windows(windows, offsets)

    def _truncated(self, texts: tuple[str, ...]) -> Tokens:
        parts = [self._tokenizer.encode(text, add_special_tokens=False) for text in texts]
        room = self.max_length - self._tokenizer.num_special_tokens_to_add(is_pair=len(parts) == 2)
        if len(parts) == 1:
            parts[0].truncate(room)
            return _tokens(self._tokenizer.post_process(parts[0], None, True))
        first, second = parts
        # Each text gets what the other leaves, but at least half: the longer one is truncated.
        keep = max(room - len(second), room // 2), max(room - len(first), room - room // 2)
        first.truncate(keep[0])
        second.truncate(keep[1])
        return _tokens(self._tokenizer.post_process(first, second, True))

    def arrays(self, batch: Sequence[Tokens]) -> dict[str, TokenArray]:
        """Return a batch, padded to its longest row."""
        if len(batch) == 1:
            return self._single(batch[0])
        width = max(len(tokens) for tokens in batch)
        ids: TokenArray = np.full((len(batch), width), self.pad_id, dtype=np.int64)
        mask: TokenArray = np.zeros((len(batch), width), dtype=np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens.ids
            mask[row, : len(tokens)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self._with_types:
            types: TokenArray = np.zeros((len(batch), width), dtype=np.int64)
            for row, tokens in enumerate(batch):
                types[row, : len(tokens)] = tokens.type_ids
            inputs["token_type_ids"] = types
        return inputs

    def _single(self, tokens: Tokens) -> dict[str, TokenArray]:
        ids: TokenArray = np.array([tokens.ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        return {**inputs, "token_type_ids": np.array([tokens.type_ids], dtype=np.int64)} if self._with_types else inputs


def read_tokenizer(directory: Path) -> Tokenizer:
    """Return the tokenizer in a model's folder; raise ModelFileCorrupt if it cannot be read."""
    path = directory / FILE
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises no narrower class.
        raise ModelFileCorrupt(f"{path} is missing or not a tokenizer; restore the folder or train again") from error


def _tokens(encoding: Encoding) -> Tokens:
    return Tokens(encoding.ids, encoding.type_ids)


def by_length(lengths: Sequence[int], max_rows: int, max_tokens: int) -> Iterator[list[int]]:
    """Yield batches of row numbers, shortest rows first: little padding, and no batch above the limits."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: (lengths[place], place)):
        if batch and (len(batch) == max_rows or (len(batch) + 1) * lengths[place] > max_tokens):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
