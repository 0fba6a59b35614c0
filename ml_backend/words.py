"""Tokens of a text from the cached tokens of its words.

Tokenizing a sentence takes a twentieth of the time of a small network's pass; looking its words up takes next to
nothing. This works for tokenizers that read each word on its own, as BERT's do. For others there is no `WordTokens`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from tokenizers import Encoding, Tokenizer

MAX_WORDS = 16_384
# Longer words are rare, and hardly ever written twice.
MAX_WORD_CHARS = 40
# The parts of a tokenizer that splits at every space first.
_PARTS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer", "model": "WordPiece"}
_READS_NEIGHBOURS = ("lstrip", "rstrip", "single_word")


@dataclass(frozen=True)
class _Frame:
    """The special tokens before one of the texts, or after the last one, and the type of the text that follows."""

    ids: tuple[int, ...]
    type_ids: tuple[int, ...]
    text_type: int = 0


class WordTokens:
    """Encodes one or two texts, word by word. Threads may share it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._read = partial(_read, tokenizer)
        self._known = lru_cache(MAX_WORDS)(self._read)
        self._frames = (_frames(tokenizer.encode("a")), _frames(tokenizer.encode("a", "b")))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "WordTokens | None":
        """Return the words of a tokenizer without padding and truncation; None if it reads words together."""
        return cls(tokenizer) if _reads_each_word_alone(json.loads(tokenizer.to_str())) else None

    def encode(self, texts: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the token ids and type ids of one or two texts, as the tokenizer does."""
        *frames, end = self._frames[len(texts) - 1]
        ids: list[int] = []
        type_ids: list[int] = []
        for text, frame in zip(texts, frames, strict=True):
            ids += frame.ids
            type_ids += frame.type_ids
            for word in text.split(" "):
                ids += self._known(word) if len(word) <= MAX_WORD_CHARS else self._read(word)
            type_ids += [frame.text_type] * (len(ids) - len(type_ids))
        return [*ids, *end.ids], [*type_ids, *end.type_ids]


def _read(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(word, add_special_tokens=False).ids)


def _reads_each_word_alone(settings: dict[str, Any]) -> bool:
    parts = all((settings[part] or {}).get("type") == kind for part, kind in _PARTS.items())
    added = settings["added_tokens"]
    return parts and not any(" " in one["content"] or any(one[name] for name in _READS_NEIGHBOURS) for one in added)


def _frames(example: Encoding) -> list[_Frame]:
    """Return the special tokens around the texts of an example."""
    frames: list[_Frame] = []
    special: list[tuple[int, int]] = []
    for token, type_id, text in zip(example.ids, example.type_ids, example.sequence_ids, strict=True):
        if text is None:
            special.append((token, type_id))
        elif text == len(frames):
            frames.append(_frame(special, type_id))
            special = []
    return [*frames, _frame(special)]


def _frame(special: Sequence[tuple[int, int]], text_type: int = 0) -> _Frame:
    return _Frame(tuple(token for token, _ in special), tuple(type_id for _, type_id in special), text_type)
