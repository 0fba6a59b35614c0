"""Exact and near duplicates among examples, found without holding a round in memory.

This search splits rounds that were opened before the decision was stored with every example (rules 1 and 2). Exact
duplicates have the same hash of the model's inputs; near duplicates have a similarity of at least 70 %. Memory grows
with the number of candidates, not with the round: the rest goes to temporary files.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from outfox.table_files import write_all
from round_manager.errors import ArchiveError
from round_manager.models import Duplicate
from round_manager.novelty.measure import band_keys, context_number, is_near, normal_texts, shingles
from templates import TaskSpec

NEAR = 0.7
BANDS = 6
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


@dataclass(frozen=True)
class DecidedBatch:
    """Some examples with the stored decision: how each repeats a known text, None for a new one."""

    ids: Sequence[str]
    authors: Sequence[str]
    duplicates: Sequence[str | None]


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


class DecidedTexts(Protocol):
    """Examples whose novelty is decided, in the order of their ids."""

    def batches(self) -> Iterator[DecidedBatch]:
        """Yield all examples in batches."""


class Texts(Protocol):
    """Examples in the order of their ids; they can be read repeatedly."""

    def batches(self) -> Iterator[WrittenBatch]:
        """Yield all examples in batches."""


@dataclass(frozen=True)
class Duplicates:
    """The duplicates: for each exact one the example that is used instead, for each near one its group's first.

    The first of a group is in `near` too, mapped to itself; `authors` has the authors of all of these. `decided` has
    the stored decisions: each of these examples is not used.
    """

    exact: dict[str, str] = field(default_factory=dict)
    near: dict[str, str] = field(default_factory=dict)
    authors: dict[str, str] = field(default_factory=dict)
    decided: dict[str, Duplicate] = field(default_factory=dict)

    @property
    def unused(self) -> Collection[str]:
        """The examples that repeat another one and are in no part."""
        return self.decided or self.exact

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
    shingles: frozenset[bytes]


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


def _bands(batch: WrittenBatch) -> list[NDArray[np.uint64]]:
    contexts = batch.contexts.fill_null("").dictionary_encode()
    numbers = np.array([context_number(text) for text in contexts.dictionary.to_pylist()], np.uint64)
    return band_keys(normal_texts(batch.texts), numbers[contexts.indices.to_numpy()], BANDS)


def _read_again(texts: Texts, wanted: set[int]) -> dict[int, _Candidate]:
    found: dict[int, _Candidate] = {}
    first = 0
    for batch in texts.batches() if wanted else ():
        here = [place - first for place in range(first, first + len(batch.ids)) if place in wanted]
        normal = normal_texts(batch.texts.take(pa.array(here, pa.int64()))).to_pylist()
        for place, text in zip(here, normal, strict=True):
            context = batch.contexts[place].as_py() or ""
            who, content = batch.authors[place], batch.contents[place]
            found[first + place] = _Candidate(batch.ids[place], who, content, context, shingles(text))
        first += len(batch.ids)
    return found


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
    return one.context == other.context and is_near(one.shingles, other.shingles, NEAR)


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
