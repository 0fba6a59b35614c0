"""How similar two texts are: the one measure behind warnings, bonuses, splits and verification.

Texts are compared without case, punctuation, spacing and invisible characters, with Cyrillic and Greek letters replaced
by Latin ones that look like them, and with digits and signs within words replaced by the letters that they stand for
(`sl1ce`); in an English task, also without accents. People read such variants as one text. Their similarity is the
share of 7-byte shingles that they have in common (Jaccard). Where the model reads a context, only texts on the same
context are compared.

MinHash keys find candidates in a large collection: similar texts are likely to share a key. With bands of four rows,
six keys find 96 and eight keys find 99 of 100 pairs at a similarity of 80 %. Every candidate is then compared exactly.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from templates import TaskSpec

# Commands that measure no text start faster without them.
if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

SHINGLE = 7
ROWS = 4
# The number of keys of each text in the index of known texts.
BANDS = 8
# Up to this many bytes of texts, all keys are computed at once.
MOST_AT_ONCE = 4_096
# What a text that belongs to no context has instead of one.
NO_CONTEXT = ""
# Invisible, although Unicode counts them as letters, marks or symbols.
_UNSEEN = [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, *range(0xFE00, 0xFE10)]
# In lower case; some look alike in upper case only. Other languages lose nothing: different letters stay different.
_LOOKALIKES = str.maketrans("авекмнорстухіјѕԁһԛԝαεικνορτυχβγωı", "abekmhopctyxijsdhqwaeikvoptuxbywi")


# Digits and signs that stand for letters within a word of Latin letters.
_STANDING_FOR = str.maketrans("013457@$", "oieastas")
# Whole words, so that a search takes linear time however long they are.
_WORD = re.compile(r"[a-z0-9@$]+")
_IN_PLACE_OF_LETTERS = frozenset("0123456789@$")
_ACCENTED = re.compile(r"([a-z])[\u0300-\u036f]+")
# In other languages, two words can differ in an accent only.
_WITHOUT_ACCENTS = frozenset({"en"})


class _Readable(dict[int, str | int | None]):
    """A table for `str.translate` that keeps letters, digits, marks and symbols such as emoji."""

    def __missing__(self, code: int) -> int | None:
        kind = unicodedata.category(chr(code))
        return code if kind[0] in "LNM" or kind == "So" else None


_READABLE = _Readable({**dict.fromkeys([*_UNSEEN, *range(0xE0100, 0xE01F0)]), **_LOOKALIKES})
# A table that has all of ASCII is faster.
_READABLE.update({code: _READABLE[code] for code in range(128)})


def normal_text(text: str, *, accents: bool = True) -> str:
    """Return what people read of a text, without case, punctuation and spacing; punctuation alone stays as it is.

    `accents` says whether letters keep them.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    if not accents and not folded.isascii():
        folded = unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", folded)))
    if not _IN_PLACE_OF_LETTERS.isdisjoint(folded):
        folded = _WORD.sub(lambda word: _without_disguise(word[0]), folded)
    return folded.translate(_READABLE) or text.strip().casefold()


def _without_disguise(word: str) -> str:
    """Return a word with letters for the digits and signs in it; a number keeps its digits."""
    return word if _IN_PLACE_OF_LETTERS.issuperset(word) else word.translate(_STANDING_FOR)


def normal_texts(texts: "pa.Array") -> "pa.Array":
    """Return the texts without differences in case, punctuation and spacing, for rounds without stored decisions."""
    import pyarrow.compute as pc

    lower = pc.utf8_lower(pc.utf8_normalize(texts.fill_null(""), "NFKC"))
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(lower, r"[^\pL\pN\pM\p{So}]+", " "))


def shingles(text: str) -> frozenset[bytes]:
    """Return the shingles of a normal text; a shorter text is one shingle, so that it equals only itself."""
    data = text.ljust(SHINGLE).encode()
    return frozenset(data[start : start + SHINGLE] for start in range(len(data) - SHINGLE + 1))


def is_near(one: frozenset[bytes], other: frozenset[bytes], near: float) -> bool:
    """Return whether two texts share at least this part of their shingles."""
    shared = len(one & other)
    return shared >= near * (len(one) + len(other) - shared)


def context_number(context: str) -> int:
    """Return a number that stands for a context, from 0 to 2⁶⁴ - 1."""
    return int.from_bytes(hashlib.blake2b(context.encode(), digest_size=8).digest())


def band_keys(normal: "pa.Array", contexts: "NDArray[np.uint64]", bands: int) -> "list[NDArray[np.uint64]]":
    """Return the MinHash keys of normal texts with the numbers of their contexts, one array per band."""
    import numpy as np
    import pyarrow.compute as pc

    padded = pc.utf8_rpad(normal, SHINGLE)
    _, offsets, data = padded.buffers()
    ends = np.frombuffer(offsets, np.int32)[padded.offset : padded.offset + len(padded) + 1].astype(np.int64)
    signs = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].astype(np.uint32)
    ends -= ends[0]
    count = len(signs) - SHINGLE + 1
    runs: NDArray[np.uint32] = np.zeros(count, np.uint32)
    for step in range(SHINGLE):
        runs = runs * np.uint32(0x01000193) + signs[step : step + count]
    # Every second segment has the shingles that begin in one text and end in the next; it is skipped below.
    borders = np.column_stack([ends[:-1], ends[1:] - SHINGLE + 1]).ravel()[:-1]
    found = []
    # One text is measured faster if all rows are computed at once; for many texts, that would take much memory.
    at_once = bands if count <= MOST_AT_ONCE else 1
    for first in range(0, bands, at_once):
        some = range(first, min(first + at_once, bands))
        mixed = runs * _multipliers(some.start * ROWS, some.stop * ROWS)
        mixed ^= mixed >> np.uint32(15)
        lowest = np.minimum.reduceat(mixed, borders, axis=1)[:, ::2].reshape(len(some), ROWS, -1)
        keys = contexts + np.arange(some.start, some.stop, dtype=np.uint64)[:, np.newaxis]
        for row in range(ROWS):
            keys = (keys ^ lowest[:, row]) * np.uint64(0x9E3779B97F4A7C15)
            keys ^= keys >> np.uint64(29)
        found += list(keys)
    return found


@lru_cache
def _multipliers(first: int, last: int) -> "NDArray[np.uint32]":
    """Return the multipliers of some rows, one below the other."""
    import numpy as np

    digests = [hashlib.sha256(f"row {row}".encode()).digest() for row in range(first, last)]
    return np.array([[int.from_bytes(one[:4]) | 1] for one in digests], np.uint32)


@dataclass(frozen=True)
class MeasuredText:
    """A normal text, the number of the context that the model reads with it, and its keys.

    `bare_key` finds the same text without a context; it is None if the text has none anyway.
    """

    text: str
    context: int
    keys: tuple[int, ...]
    bare_key: int | None = None

    def is_near(self, other: str, near: float) -> bool:
        """Return whether a normal text on the same context is near."""
        return is_near(shingles(self.text), shingles(other), near)


def measured_texts(texts: Sequence[str], contexts: Sequence[str | None], *, accents: bool = True) -> list[MeasuredText]:
    """Measure written texts; each context is what the model reads with the text, None if it reads none."""
    if not texts:
        return []
    import numpy as np
    import pyarrow as pa

    normal = pa.array([normal_text(text, accents=accents) for text in texts], pa.string())
    numbers = np.array([context_number(context or NO_CONTEXT) for context in contexts], np.uint64)
    keys = np.column_stack(band_keys(normal, numbers, BANDS)).view(np.int64).tolist()
    bare_keys: list[int | None] = [None] * len(texts)
    if any(context is not None for context in contexts):
        (found,) = band_keys(normal, np.full(len(texts), context_number(NO_CONTEXT), np.uint64), 1)
        known = zip(found.view(np.int64).tolist(), contexts, strict=True)
        bare_keys = [None if context is None else key for key, context in known]
    return [
        MeasuredText(text, number, tuple(own), bare_key)
        for text, number, own, bare_key in zip(
            normal.to_pylist(), numbers.view(np.int64).tolist(), keys, bare_keys, strict=True
        )
    ]


def normal_keys(normal: str, context: int) -> list[int]:
    """Return the keys of a text that is normal already, with the stored number of its context."""
    import numpy as np
    import pyarrow as pa

    contexts = np.array([context], np.int64).view(np.uint64)
    found: list[int] = np.concatenate(band_keys(pa.array([normal]), contexts, BANDS)).view(np.int64).tolist()
    return found


def measured_examples(spec: TaskSpec, rows: Sequence[Mapping[str, Any]]) -> list[MeasuredText]:
    """Measure what was written in examples or seed rows with these fields."""
    own, shown = ([field.name for field in spec.with_role(role) if field.name in spec.model_input] for role in ROLES)
    texts = ["\n".join(str(row.get(name) or "") for name in own) for row in rows]
    contexts = ["\n".join(str(row.get(name) or "") for name in shown) if shown else None for row in rows]
    return measured_texts(texts, contexts, accents=has_accents(spec))


def has_accents(spec: TaskSpec) -> bool:
    """Return whether words can differ in an accent only in one of the task's languages."""
    return not _WITHOUT_ACCENTS.issuperset(language.partition("-")[0] for language in spec.languages)


ROLES = ("input", "context")


def reads_context(spec: TaskSpec) -> bool:
    """Return whether the model reads a context together with what was written."""
    return any(field.name in spec.model_input for field in spec.with_role("context"))


def own_text(spec: TaskSpec, fields: Mapping[str, Any]) -> str:
    """Return what the author of an example wrote, as it was written."""
    own = [field.name for field in spec.with_role("input") if field.name in spec.model_input]
    return "\n".join(str(fields.get(name) or "") for name in own)
