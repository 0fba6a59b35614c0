"""Exact and near duplicates among examples, found without holding a round in memory.

Exact duplicates have the same hash of the model's inputs. Near duplicates have the same context, if the model reads it,
and share at least 70 % of their 7-byte shingles (Jaccard) after case, punctuation and spacing are removed. Candidates
come from MinHash with six bands of four rows, which finds 96 of 100 pairs at 80 %; every candidate is then compared
text by text. Memory grows with the number of candidates, not with the round: the rest goes to temporary files.
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

from round_manager.archive.files import write_all
from round_manager.errors import ArchiveError
from templates import TaskSpec

NEAR = 0.7
RUN = 7
BANDS, ROWS = 6, 4
# The number of texts per bucket that are compared with all others.
MOST_LEADERS = 8
FILES = 64
ENTRY = np.dtype([("key", "<u8"), ("place", "<u8")])


@dataclass(frozen=True)
class WrittenBatch:
    """Some examples: their ids, authors and content hashes, their contexts, and the texts that were written."""

    ids: Sequence[str]
    authors: Sequence[str]
    contents: Sequence[str]
    contexts: pa.Array
    texts: pa.Array


def written_batch(
    spec: TaskSpec, ids: Sequence[str], authors: Sequence[str], contents: Sequence[str], texts: dict[str, pa.Array]
) -> WrittenBatch:
    """Return the model's inputs, separated into what was shown and what the author wrote."""
    shown, own = (
        [texts[field.name] for field in spec.with_role(role) if field.name in spec.model_input]
        for role in ("context", "input")
    )
    return WrittenBatch(ids, authors, contents, _together(shown or [pa.repeat("", len(ids))]), _together(own))


def _together(texts: list[pa.Array]) -> pa.Array:
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "\n")


class Texts(Protocol):
    """Examples in the order of their ids; they can be read repeatedly."""

    def batches(self) -> Iterator[WrittenBatch]:
        """Yield all examples in batches."""


@dataclass(frozen=True)
class Duplicates:
    """The duplicates: for each exact one the example that is used instead, for each near one its group's first.

    The first of a group is in `near` too, mapped to itself; `authors` has the authors of all of these.
    """

    exact: dict[str, str] = field(default_factory=dict)
    near: dict[str, str] = field(default_factory=dict)
    authors: dict[str, str] = field(default_factory=dict)

    @property
    def near_groups(self) -> int:
        """The number of groups of near duplicates."""
        return len(set(self.near.values()))


@dataclass(frozen=True)
class _Candidate:
    id: str
    author: str
    content: str
    context: str
    runs: frozenset[bytes]


def find_duplicates(texts: Texts) -> Duplicates:
    """Return the exact and near duplicates; the same texts in the same order always give the same result."""
    try:
        with TemporaryDirectory(prefix="outfox-duplicates-") as folder, closing(_Buckets(Path(folder))) as buckets:
            place = 0
            for batch in texts.batches():
                buckets.add(batch, place)
                place += len(batch.ids)
            groups = list(buckets.groups())
    except OSError as error:
        advice = "free disk space, or set TMPDIR to another folder"
        raise ArchiveError(f"cannot search for duplicates in {gettempdir()}: {error.strerror}; {advice}") from error
    candidates = _read_again(texts, {place for group in groups for place in group})
    return _compared([[candidates[place] for place in group] for group in groups])


class _Buckets:
    """Files of (key, place): texts with the same key are candidates."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"{number}" for number in range(FILES)]
        # Unbuffered: after a failed write to a full disk, closing the files must not write again.
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

    def groups(self) -> Iterator[tuple[int, ...]]:
        """Yield the places under each key that has several, in order."""
        seen: set[tuple[int, ...]] = set()
        for path in self._paths:
            entries = np.fromfile(path, ENTRY)
            entries = entries[np.lexsort((entries["place"], entries["key"]))]
            borders = np.flatnonzero(np.diff(entries["key"])) + 1
            starts = np.concatenate([[0], borders])
            ends = np.concatenate([borders, [len(entries)]])
            for group in np.flatnonzero(ends - starts > 1):
                places = tuple(entries["place"][starts[group] : ends[group]].tolist())
                if places not in seen:
                    seen.add(places)
                    yield places


def normal_texts(texts: pa.Array) -> pa.Array:
    """Return the texts without differences in case, punctuation and spacing."""
    lower = pc.utf8_lower(pc.utf8_normalize(texts.fill_null(""), "NFKC"))
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(lower, r"[^\pL\pN\pM\p{So}]+", " "))


def _bands(batch: WrittenBatch) -> list[NDArray[np.uint64]]:
    """Return the MinHash keys of each text: similar texts are likely to share one of them."""
    padded = pc.utf8_rpad(normal_texts(batch.texts), RUN)
    _, offsets, data = padded.buffers()
    ends = np.frombuffer(offsets, np.int32)[padded.offset : padded.offset + len(padded) + 1].astype(np.int64)
    signs = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].astype(np.uint32)
    ends -= ends[0]
    count = len(signs) - RUN + 1
    runs: NDArray[np.uint32] = np.zeros(count, np.uint32)
    for step in range(RUN):
        runs = runs * np.uint32(0x01000193) + signs[step : step + count]
    # Every second segment has the shingles that begin in one text and end in the next; it is skipped below.
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


def _read_again(texts: Texts, wanted: set[int]) -> dict[int, _Candidate]:
    found: dict[int, _Candidate] = {}
    first = 0
    for batch in texts.batches() if wanted else ():
        here = [place - first for place in range(first, first + len(batch.ids)) if place in wanted]
        normal = normal_texts(batch.texts.take(pa.array(here, pa.int64()))).to_pylist()
        for place, text in zip(here, normal, strict=True):
            context = batch.contexts[place].as_py() or ""
            who, content = batch.authors[place], batch.contents[place]
            found[first + place] = _Candidate(batch.ids[place], who, content, context, _runs(text))
        first += len(batch.ids)
    return found


def _runs(text: str) -> frozenset[bytes]:
    signs = text.ljust(RUN).encode()
    return frozenset(signs[start : start + RUN] for start in range(len(signs) - RUN + 1))


def _compared(groups: list[list[_Candidate]]) -> Duplicates:
    exact: dict[str, str] = {}
    first_of = _Groups()
    for group in groups:
        used: dict[str, str] = {}
        leaders: list[_Candidate] = []
        for one in group:
            if used.setdefault(one.content, one.id) != one.id:
                exact[one.id] = used[one.content]
                continue
            alike = next((leader for leader in leaders if _is_near(leader, one)), None)
            if alike is not None:
                first_of.join(alike.id, one.id)
            elif len(leaders) < MOST_LEADERS:
                leaders.append(one)
    near = {one: first for one, first in first_of.all().items() if one not in exact}
    authors = {one.id: one.author for group in groups for one in group if one.id in exact or one.id in near}
    return Duplicates(exact, near, authors)


def _is_near(one: _Candidate, other: _Candidate) -> bool:
    shared = len(one.runs & other.runs)
    return one.context == other.context and shared >= NEAR * (len(one.runs) + len(other.runs) - shared)


class _Groups:
    """Disjoint groups of ids (union-find); a group is named by its first id."""

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
