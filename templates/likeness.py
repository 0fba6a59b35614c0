"""Texts that people cannot tell apart, though a program can."""

import unicodedata
from collections.abc import Iterable, Iterator


def likeness(text: str) -> str:
    """What is the same for all texts that differ only in case, spaces, or the way that Unicode writes a letter."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    seen = "".join(one for one in unicodedata.normalize("NFKC", folded) if unicodedata.category(one) != "Cf")
    return " ".join(seen.split())


def lookalikes(texts: Iterable[str]) -> Iterator[tuple[int, int]]:
    """The place of each text that looks like an earlier one, and the place of that."""
    met: dict[str, int] = {}
    for place, text in enumerate(texts):
        first = met.setdefault(likeness(text), place)
        if first != place:
            yield place, first
