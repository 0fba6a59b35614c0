"""Texts as the numbers that a network reads. Nothing changes after it is made, so threads may share it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer

from ml_backend.errors import ModelError
from ml_backend.runtime import TokenArray

FILE = "tokenizer.json"


@dataclass(frozen=True)
class Tokens:
    """One input of a network."""

    ids: Sequence[int]
    type_ids: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Window:
    """A question with one stretch of its passage: tokens[place + i] is token first + i of the whole passage."""

    tokens: Tokens
    place: int
    first: int
    size: int


@dataclass(frozen=True)
class Windows:
    """A question with all of its passage, in overlapping windows; offsets are those of the passage's tokens."""

    windows: Sequence[Window]
    offsets: Sequence[tuple[int, int]]


class TextEncoder:
    """Cuts texts into tokens for one network, at most max_length at a time."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, pad_id: int, *, with_types: bool) -> None:
        # A copy: a tokenizer's own padding and truncation are switches that others may turn.
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._max_length = max_length
        self.pad_id = pad_id
        self._with_types = with_types

    def texts(self, rows: Sequence[tuple[str, ...]]) -> list[Tokens]:
        """One or two texts a row; what is too long loses its end, the longer text first."""
        if len(rows) == 1:
            # A batch of one would still be handed to a pool of threads.
            first, second = rows[0] if len(rows[0]) == 2 else (rows[0][0], None)
            encoded = [self._tokenizer.encode(first, second)]
        else:
            encoded = self._tokenizer.encode_batch_fast([row[0] if len(row) == 1 else row for row in rows])
        found = [_tokens(encoding) for encoding in encoded]
        return [
            tokens if len(tokens) <= self._max_length else self._shortened(row)
            for tokens, row in zip(found, rows, strict=True)
        ]

    def windows(self, question: str, passage: str, stride: int) -> Windows:
        """All of the passage, each window with the question before it and `stride` tokens of the window before."""
        asked = self._tokenizer.encode(question, add_special_tokens=False)
        room = self._max_length - self._tokenizer.num_special_tokens_to_add(is_pair=True)
        asked.truncate(room // 2)
        room -= len(asked)
        read = self._tokenizer.encode(passage, add_special_tokens=False)
        offsets = read.offsets
        stride = min(stride, room // 2)
        read.truncate(room, stride=stride)
        windows = []
        for number, stretch in enumerate([read, *read.overflowing]):
            both = self._tokenizer.post_process(asked, stretch, True)
            if len(stretch):
                windows.append(
                    Window(_tokens(both), both.sequence_ids.index(1), number * (room - stride), len(stretch))
                )
        return Windows(windows, offsets)

    def _shortened(self, texts: tuple[str, ...]) -> Tokens:
        parts = [self._tokenizer.encode(text, add_special_tokens=False) for text in texts]
        room = self._max_length - self._tokenizer.num_special_tokens_to_add(is_pair=len(parts) == 2)
        if len(parts) == 1:
            parts[0].truncate(room)
            return _tokens(self._tokenizer.post_process(parts[0], None, True))
        first, second = parts
        # Each gets what the other leaves, but never less than half: the longer text gives way.
        keep = max(room - len(second), room // 2), max(room - len(first), room - room // 2)
        first.truncate(keep[0])
        second.truncate(keep[1])
        return _tokens(self._tokenizer.post_process(first, second, True))

    def arrays(self, batch: Sequence[Tokens]) -> dict[str, TokenArray]:
        """A batch, padded to its longest row."""
        if len(batch) == 1:
            return self._unpadded(batch[0])
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

    def _unpadded(self, tokens: Tokens) -> dict[str, TokenArray]:
        ids: TokenArray = np.array([tokens.ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        return {**inputs, "token_type_ids": np.array([tokens.type_ids], dtype=np.int64)} if self._with_types else inputs


def read_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer in a model's folder, or a ModelError."""
    path = directory / FILE
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises nothing more exact.
        raise ModelError(f"{path} is missing or no tokenizer; restore the folder or train again") from error


def _tokens(encoding: Encoding) -> Tokens:
    return Tokens(encoding.ids, encoding.type_ids)


def by_length(lengths: Sequence[int], most_rows: int, most_tokens: int) -> Iterator[list[int]]:
    """Batches of places, shortest rows first, so that little is padded and no batch holds more than it may."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: (lengths[place], place)):
        if batch and (len(batch) == most_rows or (len(batch) + 1) * lengths[place] > most_tokens):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
