"""The one place that prepares text for a model: what training, serving and evaluation all read."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import emoji

# One character of the result, and the piece original[start:end] that it stands for.
Piece = tuple[str, int, int]

# Text that needs no more than single spaces: no emoji, nothing invisible, nothing that could be composed.
_PLAIN = re.compile(r"[\t\n\r -~\u00a0-\u00a8\u00aa-\u00ac\u00af-\u024f\u2013\u2014\u2018\u2019\u201c\u201d\u2026]*")
_JOINERS = "\u200c\u200d"
_VARIATION_SELECTORS = frozenset([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])


@dataclass(frozen=True)
class Aligned:
    """Normalised text that knows where each of its characters came from."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The range of the original that text[start:end] stands for; the range given must not be empty."""
        return self.starts[start], self.ends[end - 1]


def normalise(text: str) -> str:
    """The text as models read it: NFC, emoji in words, nothing invisible, single spaces."""
    if _PLAIN.fullmatch(text):
        return " ".join(text.split())
    return align(text).text


def align(text: str) -> Aligned:
    """What `normalise` gives, with a way back to the characters of the original."""
    if _PLAIN.fullmatch(text) and " ".join(text.split()) == text:
        return Aligned(text, range(len(text)), range(1, len(text) + 1))
    pieces = list(_visible(list(_spelled_out(text))))
    if not unicodedata.is_normalized("NFC", "".join(char for char, _, _ in pieces)):
        pieces = list(_composed(pieces))
    pieces = list(_single_spaced(pieces))
    return Aligned(
        "".join(char for char, _, _ in pieces),
        tuple(start for _, start, _ in pieces),
        tuple(end for _, _, end in pieces),
    )


def _spelled_out(text: str) -> Iterator[Piece]:
    """Every emoji becomes its name: small vocabularies have no emoji, so a model would not see which one it is."""
    if text.isascii():
        yield from ((char, place, place + 1) for place, char in enumerate(text))
        return
    place = 0
    for token in emoji.analyze(text, non_emoji=True, join_emoji=True):
        end = place + len(token.chars)
        if isinstance(token.value, str):
            yield token.chars, place, end
        else:
            name = emoji.demojize(token.chars, delimiters=(" ", " ")).replace("_", " ").strip()
            yield " ", place, place
            yield from ((char, place, end) for char in name)
            yield " ", end, end
        place = end


def _visible(pieces: list[Piece]) -> Iterator[Piece]:
    """Leave out what nobody can see, so that a word broken up by it is that word again."""
    before = ""
    for char, start, end in pieces:
        if char in _JOINERS:
            # Scripts without capitals need joiners inside words; elsewhere they only hide things.
            keep = before != "" and unicodedata.category(before) in ("Lo", "Mn", "Mc")
        elif ord(char) in _VARIATION_SELECTORS:
            keep = False
        else:
            keep = char.isspace() or unicodedata.category(char) not in ("Cc", "Cf", "Cs")
        if keep:
            yield char, start, end
            before = char


def _composed(pieces: list[Piece]) -> Iterator[Piece]:
    """NFC, one group of characters that belong together at a time."""
    first = 0
    while first < len(pieces):
        group = pieces[first][0]
        last = first + 1
        while last < len(pieces) and _joins(group, pieces[last][0]):
            group += pieces[last][0]
            last += 1
        start, end = pieces[first][1], pieces[last - 1][2]
        yield from ((char, start, end) for char in unicodedata.normalize("NFC", group))
        first = last


def _joins(group: str, char: str) -> bool:
    if unicodedata.combining(char):
        return True
    apart = unicodedata.normalize("NFC", group) + unicodedata.normalize("NFC", char)
    return unicodedata.normalize("NFC", group + char) != apart


def _single_spaced(pieces: list[Piece]) -> Iterator[Piece]:
    space: Piece | None = None
    written = False
    for char, start, end in pieces:
        if char.isspace():
            space = (" ", space[1] if space else start, end)
            continue
        if space and written:
            yield space
        space, written = None, True
        yield char, start, end
