"""What an edit is: it finds changes in the texts of a row, and declares which characters they may touch."""

import hashlib
import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Axis = Literal["robustness", "fairness"]
Kind = Literal["classification", "qa"]
Span = tuple[int, int]
Item = TypeVar("Item")

# Letters only: digits stay, and what is joined to digits is a code rather than a word.
_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?!\w)")


@dataclass(frozen=True)
class Change:
    """text[start:end] becomes `new`; with start == end it is inserted."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Text:
    """One text of a row, its language (without the region), and the spans that stay as they are."""

    content: str
    language: str = "en"
    protected: tuple[Span, ...] = ()

    def is_free(self, start: int, end: int) -> bool:
        """Return whether no protected character lies in text[start:end], and no protected span around an insertion."""
        if start == end:
            return not any(first < start < last for first, last in self.protected)
        return not any(first < end and start < last for first, last in self.protected)

    def words(self, letters: int = 1) -> list[Span]:
        """Return the words of at least that many letters that may change."""
        found = (match.span() for match in _WORD.finditer(self.content))
        return [(start, end) for start, end in found if end - start >= letters and self._is_whole(start, end)]

    def cased_words(self, letters: int = 1) -> list[Span]:
        """Return those words whose letters are all upper or lower case, as in Latin, Greek and Cyrillic scripts."""
        return [(start, end) for start, end in self.words(letters) if all(map(_is_cased, self.content[start:end]))]

    def _is_whole(self, start: int, end: int) -> bool:
        marked = end < len(self.content) and unicodedata.category(self.content[end]).startswith("M")
        return not marked and self.is_free(start, end)


def _is_cased(char: str) -> bool:
    return unicodedata.category(char) in ("Ll", "Lu")


class Draw:
    """Random choices that follow from a seed and a name; the same on every machine and version of Python."""

    def __init__(self, *seed: object) -> None:
        self._seed = seed
        digest = hashlib.sha256("\0".join(map(str, seed)).encode("utf-8", "surrogatepass")).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "big")).random  # noqa: S311 - repeatable, not secret

    def below(self, limit: int) -> int:
        """Return a number from 0 to limit - 1."""
        return int(self._random() * limit)

    def choice(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[self.below(len(items))]

    def share(self, items: Sequence[Item], rate: float) -> list[Item]:
        """Return this share of the items, but at least one if there are any, in their order."""
        many = max(1, round(rate * len(items))) if items else 0
        keyed = sorted((self._random(), index) for index in range(len(items)))
        return [items[index] for index in sorted(index for _, index in keyed[:many])]


# Takes the texts of a row by field; returns the changes of each, in any order, without overlaps.
Finder = Callable[[Mapping[str, Text], Draw], Mapping[str, Sequence[Change]]]
# Takes what a change removes and what it inserts; returns whether the edit may do that.
Rule = Callable[[str, str], bool]


@dataclass(frozen=True)
class Edit:
    """A seeded, deterministic change of texts that leaves the right answer as it is.

    Args:
        name: A short lower-case name; results carry it.
        axis: `robustness` or `fairness`.
        summary: What it does, in one sentence.
        changes: Which characters it may change, in one sentence.
        find: Finds the changes in the texts of a row.
        allows: Whether a change is one that `changes` describes; every change is checked.
        languages: The languages that it fits, without regions; empty: all.
        kinds: The kinds of tasks that it fits.
        version: To be increased when its results change; stored results of another version are not reused.
    """

    name: str
    axis: Axis
    summary: str
    changes: str
    find: Finder
    allows: Rule
    languages: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ("classification", "qa")
    version: int = 1

    def fits(self, language: str, kind: str) -> bool:
        """Return whether the edit is made for texts of that language and tasks of that kind."""
        return kind in self.kinds and (not self.languages or primary(language) in self.languages)


def primary(language: str) -> str:
    """Return a language without its region: `en` for `en-GB`."""
    return language.partition("-")[0].lower()


def in_each_text(find: Callable[[Text, Draw], Sequence[Change]]) -> Finder:
    """Return a finder that treats the texts of a row one by one."""
    return lambda texts, draw: {name: find(text, draw) for name, text in texts.items()}
