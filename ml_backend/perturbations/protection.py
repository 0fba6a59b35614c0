"""Spans of a text that no edit touches: answers, words that bear the label, and addresses."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from ml_backend.perturbations.edit import Span
from ml_backend.perturbations.word_lists import LABEL_WORDS

# Addresses, e-mail addresses, and what @ and # mark: another letter makes another one.
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\w+|[@#]\w+", re.I)
_CONTRACTED_NOT = re.compile(r"\w+n['\u2019]t\b", re.I)


def protected_spans(text: str, language: str, words: Sequence[str] = (), answers: Iterable[str] = ()) -> list[Span]:
    """Return the spans that stay: whole words (case does not matter), and every mention of an answer."""
    return sorted(set(_spans(text, language, tuple(words), answers)))


def _spans(text: str, language: str, words: tuple[str, ...], answers: Iterable[str]) -> Iterator[Span]:
    yield from (match.span() for match in _ADDRESS.finditer(text))
    if language == "en":
        yield from (match.span() for match in _CONTRACTED_NOT.finditer(text))
    pattern = _whole_words((*LABEL_WORDS.get(language, ()), *words))
    if pattern:
        yield from (match.span() for match in pattern.finditer(text))
    for answer in answers:
        if answer:
            yield from (match.span() for match in re.finditer(_bounded(answer), text))


@lru_cache(64)
def _whole_words(words: tuple[str, ...]) -> re.Pattern[str] | None:
    longest_first = sorted({word.strip() for word in words if word.strip()}, key=lambda word: (-len(word), word))
    return re.compile("|".join(map(_bounded, longest_first)), re.I) if longest_first else None


def _bounded(words: str) -> str:
    """Return a pattern for these words that does not match inside longer ones."""
    before = r"(?<!\w)" if re.match(r"\w", words[0]) else ""
    after = r"(?!\w)" if re.match(r"\w", words[-1]) else ""
    return before + re.escape(words) + after
