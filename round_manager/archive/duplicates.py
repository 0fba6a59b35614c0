"""Duplicates: examples that say the same, or nearly, found without holding a round in memory.

Exact ones have the same fingerprint of what the model reads. Near ones belong to the same context, where the model
reads it, and share at least 70 % of their runs of seven bytes (Jaccard), once case, punctuation and spacing are gone.
Candidates come from MinHash with six bands of four rows, which finds 96 of 100 pairs at 80 %, and every candidate is
then compared text by text.
What is kept in memory grows with the duplicates that are suspected, not with the round: the rest goes to files.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from round_manager.archive.writer import write_all
from round_manager.errors import ArchiveError

NEAR = 0.7
RUN = 7
BANDS, ROWS = 6, 4
# Of one suspicious heap, so many texts are compared with all others.
MOST_LEADERS = 8
FILES = 64
ENTRY = np.dtype([("key", "<u8"), ("place", "<u8")])


@dataclass(frozen=True)
class WrittenBatch:
    """Some examples: their ids, authors and fingerprints, what they were written for, and what was written."""

    ids: Sequence[str]
    authors: Sequence[str]
    contents: Sequence[str]
    contexts: pa.Array
    texts: pa.Array


class Texts(Protocol):
    """Examples in the order of their ids, to be read as often as is needed."""

    def batches(self) -> Iterator[WrittenBatch]:
        """All of them, some at a time."""
        ...


@dataclass(frozen=True)
class Duplicates:
    """What was found: for each exact duplicate the example that is used instead, for each near one its group's first.

    The first of a group stands in `near` too, under itself; `authors` tells who wrote all of these.
    """

    exact: dict[str, str] = field(default_factory=dict)
    near: dict[str, str] = field(default_factory=dict)
    authors: dict[str, str] = field(default_factory=dict)

    @property
    def near_groups(self) -> int:
        """How many groups there are."""
        return len(set(self.near.values()))


@dataclass(frozen=True)
class _Suspect:
    id: str
    author: str
    content: str
    context: str
    runs: frozenset[bytes]


def find_duplicates(texts: Texts) -> Duplicates:
    """The exact and the near duplicates; the same texts in the same order always give the same answer."""
    try:
        with TemporaryDirectory(prefix="outfox-duplicates-") as folder, closing(_Heaps(Path(folder))) as heaps:
            place = 0
            for batch in texts.batches():
                heaps.add(batch, place)
                place += len(batch.ids)
            piles = list(heaps.piles())
    except OSError as error:
        cure = "free the disk, or set TMPDIR to another"
        raise ArchiveError(f"cannot look for duplicates in {gettempdir()}: {error.strerror}; {cure}") from error
    suspects = _read_again(texts, {place for pile in piles for place in pile})
    return _compared([[suspects[place] for place in pile] for pile in piles])


class _Heaps:
    """Files of (key, place): those with one key are suspected to be alike."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"{number}" for number in range(FILES)]
        # Not buffered: what a full disk refused must not be tried again when the files are let go.
        self._files = [path.open("wb", buffering=0) for path in self._paths]

    def add(self, batch: WrittenBatch, first: int) -> None:
        places = np.arange(first, first + len(batch.ids), dtype=np.uint64)
        exact = np.array([int(content[:16], 16) for content in batch.contents], np.uint64)
        for keys in (exact, *_bands(batch)):
            entries = np.empty(len(keys), ENTRY)
            entries["key"], entries["place"] = keys, places
            into = keys % np.uint64(FILES)
            order = np.argsort(into, kind="stable")
            for number, part in enumerate(np.split(entries[order], np.searchsorted(into[order], range(1, FILES)))):
                write_all(self._files[number], memoryview(part.tobytes()))

    def close(self) -> None:
        for file in self._files:
            file.close()

    def piles(self) -> Iterator[tuple[int, ...]]:
        """The places under each key that has several, in order."""
        seen: set[tuple[int, ...]] = set()
        for path in self._paths:
            entries = np.fromfile(path, ENTRY)
            entries = entries[np.lexsort((entries["place"], entries["key"]))]
            borders = np.flatnonzero(np.diff(entries["key"])) + 1
            starts = np.concatenate([[0], borders])
            ends = np.concatenate([borders, [len(entries)]])
            for pile in np.flatnonzero(ends - starts > 1):
                places = tuple(entries["place"][starts[pile] : ends[pile]].tolist())
                if places not in seen:
                    seen.add(places)
                    yield places


def normal_texts(texts: pa.Array) -> pa.Array:
    """The texts without what makes no difference to a reader: case, punctuation, spacing."""
    lower = pc.utf8_lower(pc.utf8_normalize(texts.fill_null(""), "NFKC"))
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(lower, r"[^\pL\pN\pM\p{So}]+", " "))


def _bands(batch: WrittenBatch) -> list[NDArray[np.uint64]]:
    """The keys of each text: texts that share a share of their runs have one of them in common, likely."""
    padded = pc.utf8_rpad(normal_texts(batch.texts), RUN)
    _, offsets, data = padded.buffers()
    ends = np.frombuffer(offsets, np.int32)[padded.offset : padded.offset + len(padded) + 1].astype(np.int64)
    signs = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].astype(np.uint32)
    ends -= ends[0]
    count = len(signs) - RUN + 1
    runs: NDArray[np.uint32] = np.zeros(count, np.uint32)
    for step in range(RUN):
        runs = runs * np.uint32(0x01000193) + signs[step : step + count]
    # Every second stretch is of runs that begin in one text and end in the next; they are left out below.
    borders = np.column_stack([ends[:-1], ends[1:] - RUN + 1]).ravel()[:-1]
    contexts = batch.contexts.fill_null("").dictionary_encode()
    numbers = np.array([_number(text) for text in contexts.dictionary.to_pylist()], np.uint64)
    about = numbers[contexts.indices.to_numpy()]
    found = []
    for band in range(BANDS):
        key = about + np.uint64(band)
        for row in range(ROWS):
            mixed = runs * _multiplier(band * ROWS + row)
            mixed ^= mixed >> np.uint32(15)
            lowest = np.minimum.reduceat(mixed, borders)[::2]
            key = (key ^ lowest) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        found.append(key)
    return found


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def _multiplier(row: int) -> np.uint32:
    return np.uint32(int.from_bytes(hashlib.sha256(f"row {row}".encode()).digest()[:4]) | 1)


def _read_again(texts: Texts, wanted: set[int]) -> dict[int, _Suspect]:
    found: dict[int, _Suspect] = {}
    first = 0
    for batch in texts.batches() if wanted else ():
        here = [place - first for place in range(first, first + len(batch.ids)) if place in wanted]
        normal = normal_texts(batch.texts.take(pa.array(here, pa.int64()))).to_pylist()
        for place, text in zip(here, normal, strict=True):
            context = batch.contexts[place].as_py() or ""
            who, content = batch.authors[place], batch.contents[place]
            found[first + place] = _Suspect(batch.ids[place], who, content, context, _runs(text))
        first += len(batch.ids)
    return found


def _runs(text: str) -> frozenset[bytes]:
    signs = text.ljust(RUN).encode()
    return frozenset(signs[start : start + RUN] for start in range(len(signs) - RUN + 1))


def _compared(piles: list[list[_Suspect]]) -> Duplicates:
    exact: dict[str, str] = {}
    first_of = _Groups()
    for pile in piles:
        used: dict[str, str] = {}
        leaders: list[_Suspect] = []
        for one in pile:
            if used.setdefault(one.content, one.id) != one.id:
                exact[one.id] = used[one.content]
                continue
            alike = next((leader for leader in leaders if _is_near(leader, one)), None)
            if alike is not None:
                first_of.join(alike.id, one.id)
            elif len(leaders) < MOST_LEADERS:
                leaders.append(one)
    near = {one: first for one, first in first_of.all().items() if one not in exact}
    authors = {one.id: one.author for pile in piles for one in pile if one.id in exact or one.id in near}
    return Duplicates(exact, near, authors)


def _is_near(one: _Suspect, other: _Suspect) -> bool:
    shared = len(one.runs & other.runs)
    return one.context == other.context and shared >= NEAR * (len(one.runs) + len(other.runs) - shared)


class _Groups:
    """Who belongs together, through whomever; a group is called by its first id."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def join(self, one: str, other: str) -> None:
        first, second = sorted((self._first(one), self._first(other)))
        self._above[second] = self._above[first] = first

    def all(self) -> dict[str, str]:
        groups: dict[str, list[str]] = defaultdict(list)
        for one in list(self._above):
            groups[self._first(one)].append(one)
        return {one: first for first, ids in groups.items() for one in sorted(ids)}

    def _first(self, one: str) -> str:
        while (above := self._above.get(one, one)) != one:
            self._above[one] = self._above.get(above, above)
            one = above
        return one
