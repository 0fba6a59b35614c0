"""Text normalisation, the same for training, serving and evaluation."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import emoji

# One character of the result, and the range original[start:end] that it comes from.
Piece = tuple[str, int, int]

# Plain text that only needs single spaces: no emoji, no invisible and no combining characters.
_PLAIN = re.compile(r"[\t\n\r -~\u00a0-\u00a8\u00aa-\u00ac\u00af-\u024f\u2013\u2014\u2018\u2019\u201c\u201d\u2026]*")
_JOINERS = "\u200c\u200d"
_VARIATION_SELECTORS = frozenset([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])


@dataclass(frozen=True)
class Aligned:
    """Normalised text with the origin of each of its characters."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the original that text[start:end] comes from; the given range must not be empty."""
        return self.starts[start], self.ends[end - 1]


def unchanged(text: str) -> str:
    """Return the text as it is, for models that were trained elsewhere."""
    return text


def unchanged_aligned(text: str) -> Aligned:
    """Return the text as it is, with the origin of each character."""
    return Aligned(text, range(len(text)), range(1, len(text) + 1))


def normalise(text: str) -> str:
    """Return the text as models read it: NFC, emoji as words, no invisible characters, single spaces."""
    if _PLAIN.fullmatch(text):
        return " ".join(text.split())
    return align(text).text


def align(text: str) -> Aligned:
    """Return the normalised text together with the origin of its characters."""
    if _PLAIN.fullmatch(text) and " ".join(text.split()) == text:
        return Aligned(text, range(len(text)), range(1, len(text) + 1))
    pieces = list(_drop_invisible(list(_spell_out_emoji(text))))
    if not unicodedata.is_normalized("NFC", "".join(char for char, _, _ in pieces)):
        pieces = list(_compose(pieces))
    pieces = list(_single_spaced(pieces))
    return Aligned(
        "".join(char for char, _, _ in pieces),
        tuple(start for _, start, _ in pieces),
        tuple(end for _, _, end in pieces),
    )


def _spell_out_emoji(text: str) -> Iterator[Piece]:
    """Replace every emoji with its name: small vocabularies have no emoji, so all of them would look the same."""
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


def _drop_invisible(pieces: list[Piece]) -> Iterator[Piece]:
    """Drop invisible characters, so that a word that they split becomes whole again."""
    before = ""
    for char, start, end in pieces:
        if char in _JOINERS:
            # Scripts without capitals need joiners inside words; elsewhere they are only used to hide something.
            keep = before != "" and unicodedata.category(before) in ("Lo", "Mn", "Mc")
        elif ord(char) in _VARIATION_SELECTORS:
            keep = False
        else:
            keep = char.isspace() or unicodedata.category(char) not in ("Cc", "Cf", "Cs")
        if keep:
            yield char, start, end
            before = char


def _compose(pieces: list[Piece]) -> Iterator[Piece]:
    """Apply NFC to one group of combining characters at a time."""
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
