"""Recount: check that the status and gold label of every example follow from its votes by the round's policy."""

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
from round_manager.archive.manifest import REPAIR
from round_manager.archive.reader import TableCursor, table_batches
from round_manager.archive.tables import TEXT, Columns
from round_manager.errors import PolicyError
from round_manager.models import ExampleStatus
from templates import TaskSpec

DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)
NOT_YET = (ExampleStatus.PENDING, ExampleStatus.UNCHECKED, ExampleStatus.FLAGGED, ExampleStatus.UNCONFIRMED)
# With more votes there are too many orders to try.
MOST_IN_ANY_ORDER = 6


@dataclass(frozen=True)
class ArchivedVote:
    """A label, or an answer with its start, or a flag."""

    label: str | None = None
    answer: str | None = None
    start: int | None = None
    flag: str | None = None


@dataclass(frozen=True)
class Counted:
    """The outcome of counting votes: the example's status and its gold label or answer."""

    status: str
    gold: ArchivedVote


# Counts the votes on an author's label or answer, in their order, by a round's policy.
VoteCount = Callable[[ArchivedVote, Sequence[ArchivedVote]], Counted]
# Returns how a round with this spec counts votes, or raises PolicyError if its policy is unknown here.
CountingRule = Callable[[TaskSpec], VoteCount]


def vote_problems(folder: Path, columns: Columns) -> Iterator[str]:
    """Yield a problem if the votes inside the examples differ from the table `votes`."""
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
        yield f"{plural(wrong, 'vote is', 'votes are')} different in examples and in votes; {REPAIR}"


def _different(one: pa.Table, other: pa.Table) -> int:
    same = np.ones(one.num_rows, bool)
    for name in one.column_names:
        mine, theirs = one[name], other[name]
        alike = pc.or_(pc.equal(mine, theirs).fill_null(False), pc.and_(mine.is_null(), theirs.is_null()))
        same &= alike.to_numpy()
    return int((~same).sum())


class Recount:
    """Compares the examples of an archive with the outcome of their votes."""

    def __init__(self, folder: Path, columns: Columns, counting: CountingRule | None) -> None:
        self._folder = folder
        self._columns = columns
        self._counting = counting
        self.done = False
        self.unchecked: list[str] = []

    def problems(self) -> Iterator[str]:
        """Yield problems: decisions that no order of the votes gives, and gold labels of undecided examples."""
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
            yield f"{plural(wrong, 'example is', 'examples are')} decided differently from their votes; {REPAIR}"
        if not_yet:
            yield f"{plural(not_yet, 'example has', 'examples have')} a gold label but no decision; {REPAIR}"
        parts = (
            (settled, "label that was settled", "labels that were settled", "where validators disagreed"),
            (unsure, "example", "examples", "with too many votes to try every order"),
            (taken, "example that is", "examples that are", "withdrawn or undecided"),
        )
        self.unchecked += [f"{plural(number, one, many)} {rest}" for number, one, many, rest in parts if number]

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
        # There are few labels, and few ways to vote on them.
        return lru_cache(maxsize=100_000)(partial(_verdict, count))

    def _rows(self) -> Iterator[tuple[str, ArchivedVote, ArchivedVote, tuple[ArchivedVote, ...]]]:
        names = [name for prefix in ("", "gold_") for name, _ in self._columns.target(prefix)]
        for batch in table_batches(self._folder, "examples", ["status", *names, "votes"]):
            for row in batch.to_pylist():
                yield (
                    row["status"],
                    _vote_of(row),
                    _vote_of(row, "gold_"),
                    tuple(_vote_of(vote) for vote in row["votes"] or ()),
                )


def _vote_of(row: dict[str, Any], prefix: str = "") -> ArchivedVote:
    names = (f"{prefix}label", f"{prefix}answer", f"{prefix}answer_start", "" if prefix else "flag")
    return ArchivedVote(*(row.get(name) for name in names))


def _verdict(
    count: VoteCount, status: str, author: ArchivedVote, gold: ArchivedVote, votes: tuple[ArchivedVote, ...]
) -> str:
    """Return `same`, `settled` or `wrong`, or `unsure` if it cannot be determined."""
    try:
        found = _compare(count(author, votes), status, author, gold)
        # Votes count in the order of arrival, which their times do not always show.
        if found == "wrong" and len(votes) > MOST_IN_ANY_ORDER:
            return "unsure"
        if found == "wrong":
            orders = set(permutations(votes))
            others = {_compare(count(author, order), status, author, gold) for order in orders}
            return next(one for one in ("same", "settled", "wrong") if one in others)
    except PolicyError:
        return "unsure"
    return found


def _compare(counted: Counted, status: str, author: ArchivedVote, gold: ArchivedVote) -> str:
    if (counted.status, counted.gold) == (status, gold):
        return "same"
    # The owner may settle disputed examples with Dawid-Skene.
    not_agreed = (counted.status, counted.gold) == (ExampleStatus.DISPUTED, ArchivedVote())
    is_authors = gold.label == author.label
    may_be = not_agreed and gold.label is not None and (status == ExampleStatus.VERIFIED) == is_authors
    return "settled" if may_be else "wrong"
