"""Votes counted again: what an archive says of its examples follows from their votes where its policy decides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.text import count as plural
from round_manager.archive.manifest import CURE
from round_manager.archive.reader import TableCursor, table_batches
from round_manager.archive.tables import TEXT, Columns
from round_manager.errors import PolicyError
from round_manager.models import ExampleStatus
from templates import TaskSpec

DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)
NOT_YET = (ExampleStatus.PENDING, ExampleStatus.UNCHECKED, ExampleStatus.FLAGGED, ExampleStatus.UNCONFIRMED)
# All orders of more votes are too many to try.
MOST_IN_ANY_ORDER = 6


@dataclass(frozen=True)
class ArchivedVote:
    """A label, or an answer and where it begins; of a vote, or a flag."""

    label: str | None = None
    answer: str | None = None
    start: int | None = None
    flag: str | None = None


@dataclass(frozen=True)
class Counted:
    """What votes make of an example: its status, and what people agree on."""

    status: str
    gold: ArchivedVote


# What an author says and the votes in their order, as a round's policy counts them.
VoteCount = Callable[[ArchivedVote, Sequence[ArchivedVote]], Counted]
# The way in which a round of that spec counts, or a PolicyError where nobody here knows its policy.
CountingRule = Callable[[TaskSpec], VoteCount]


def vote_problems(folder: Path, columns: Columns) -> Iterator[str]:
    """Whether the votes inside the examples are those of the table `votes`."""
    schema = pa.schema([("example", TEXT), *columns.vote])
    votes, wrong = TableCursor(folder, "votes", schema), 0
    for batch in table_batches(folder, "examples", ["id", "votes"]):
        lists = batch["votes"]
        inside = lists.flatten()
        counts = pc.list_value_length(lists).fill_null(0).to_numpy()
        whose = batch["id"].take(pa.array(np.repeat(np.arange(batch.num_rows), counts)))
        mine = pa.Table.from_arrays([whose, *inside.flatten()], schema=schema)
        theirs = votes.take(mine.num_rows)
        wrong += mine.num_rows if theirs.num_rows < mine.num_rows else _different(mine, theirs)
    if wrong:
        yield f"{plural(wrong, 'vote is', 'votes are')} not the same in examples and in votes; {CURE}"


def _different(one: pa.Table, other: pa.Table) -> int:
    same = np.ones(one.num_rows, bool)
    for name in one.column_names:
        mine, theirs = one[name], other[name]
        alike = pc.or_(pc.equal(mine, theirs).fill_null(False), pc.and_(mine.is_null(), theirs.is_null()))
        same &= alike.to_numpy()
    return int((~same).sum())


class Recount:
    """The examples of an archive beside what their votes come to."""

    def __init__(self, folder: Path, columns: Columns, counting: CountingRule | None) -> None:
        self._folder = folder
        self._columns = columns
        self._counting = counting
        self.done = False
        self.unchecked: list[str] = []

    def problems(self) -> Iterator[str]:
        """Examples whose status or gold no order of their votes gives, and gold where nothing is decided."""
        count = self._count()
        wrong = not_yet = settled = unsure = taken = 0
        for status, author, gold, votes in self._rows():
            if status in DECIDED and count is not None:
                verdict = count(status, author, gold, votes)
                wrong += verdict == "wrong"
                settled += verdict == "settled"
                unsure += verdict == "unsure"
            elif status not in DECIDED:
                taken += 1
                not_yet += status in NOT_YET and gold != ArchivedVote()
        if wrong:
            yield f"{plural(wrong, 'example is', 'examples are')} not what the policy makes of the votes; {CURE}"
        if not_yet:
            yield f"{plural(not_yet, 'example has', 'examples have')} a gold label without being decided; {CURE}"
        told = (
            (settled, "label that was settled", "labels that were settled", "where people did not agree"),
            (unsure, "example", "examples", "with more votes than are tried in every order"),
            (taken, "example that is", "examples that are", "withdrawn or undecided"),
        )
        self.unchecked += [f"{plural(number, one, many)} {rest}" for number, one, many, rest in told if number]

    def _count(self) -> Callable[[str, ArchivedVote, ArchivedVote, tuple[ArchivedVote, ...]], str] | None:
        if self._counting is None:
            self.unchecked.append("gold labels")
            return None
        try:
            count = self._counting(self._columns.spec)
        except PolicyError as error:
            self.unchecked.append(f"gold labels ({error})")
            return None
        self.done = True
        # Of labels there are few, and few ways to vote on them.
        return lru_cache(maxsize=100_000)(partial(_verdict, count))

    def _rows(self) -> Iterator[tuple[str, ArchivedVote, ArchivedVote, tuple[ArchivedVote, ...]]]:
        names = [name for prefix in ("", "gold_") for name, _ in self._columns.target(prefix)]
        for batch in table_batches(self._folder, "examples", ["status", *names, "votes"]):
            for row in batch.to_pylist():
                yield row["status"], _said(row), _said(row, "gold_"), tuple(_said(vote) for vote in row["votes"] or ())


def _said(row: dict[str, Any], prefix: str = "") -> ArchivedVote:
    names = (f"{prefix}label", f"{prefix}answer", f"{prefix}answer_start", "" if prefix else "flag")
    return ArchivedVote(*(row.get(name) for name in names))


def _verdict(
    count: VoteCount, status: str, author: ArchivedVote, gold: ArchivedVote, votes: tuple[ArchivedVote, ...]
) -> str:
    """Whether votes make the example what it is: same, settled, wrong, or unsure where it cannot be said."""
    try:
        found = _beside(count(author, votes), status, author, gold)
        # Votes count in the order in which they came in, which their times need not tell.
        if found == "wrong" and len(votes) > MOST_IN_ANY_ORDER:
            return "unsure"
        if found == "wrong":
            orders = set(permutations(votes))
            others = {_beside(count(author, order), status, author, gold) for order in orders}
            return next(one for one in ("same", "settled", "wrong") if one in others)
    except PolicyError:
        return "unsure"
    return found


def _beside(counted: Counted, status: str, author: ArchivedVote, gold: ArchivedVote) -> str:
    if (counted.status, counted.gold) == (status, gold):
        return "same"
    # The owner may let Dawid-Skene settle what people did not agree on.
    not_agreed = (counted.status, counted.gold) == (ExampleStatus.DISPUTED, ArchivedVote())
    is_authors = gold.label == author.label
    may_be = not_agreed and gold.label is not None and (status == ExampleStatus.VERIFIED) == is_authors
    return "settled" if may_be else "wrong"
