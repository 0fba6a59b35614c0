"""Choosing: which contexts a task's strategy gives somebody next, among however many there are.

The contexts that nobody writes on are found level by level, by the tallies' indexes; those on which somebody does are
few, and are ranked one by one. No query reads more than a window of a level, beside what the worker must not get.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from round_manager.models import ContextTally, Lease, Round
from round_manager.work.seeded_order import PRIME, SeededOrder

# Equals are drawn among so many at the most: those that follow the session's start in the order of their lots. Lots are
# spread evenly, so that each context is as often among them as any other, give or take a few in a hundred.
WINDOW = 1_000
# So many more than are wanted come from the database, for some of them the worker may have had.
FEW = 30


@dataclass(frozen=True)
class ContextUsage:
    """How a context stands in its round: the examples on it, those that fooled, and who is writing on it now.

    Numbers of one context, or the columns that hold those of all.
    """

    id: Any
    position: Any
    used: Any
    fooled: Any
    leased: Any


# The context with the lowest rank is handed out; equals are drawn. A context that somebody writes on counts as used,
# and as one that will fool, so that people who come at once are spread as those who come one after the other are.
RANKS: dict[str, Callable[[ContextUsage], tuple[Any, ...]]] = {
    "uniform": lambda one: (one.leased,),
    "least_used": lambda one: (one.used + one.leased,),
    "least_fooled": lambda one: (one.fooled + one.leased, one.used),
    "in_order": lambda one: (one.used + one.leased, one.position),
}
# What tells contexts that nobody writes on apart before a lot or their position does; there is an index for each.
LEVELS: dict[str, tuple[InstrumentedAttribute[int], ...]] = {
    "uniform": (),
    "least_used": (ContextTally.used,),
    "least_fooled": (ContextTally.fooled, ContextTally.used),
    "in_order": (ContextTally.used,),
}
Level = tuple[int, ...]
# A context's place in its level and its id.
Placed = tuple[int, int]


def is_live(now: datetime) -> ColumnElement[bool]:
    """A lease that holds."""
    return Lease.ended_at.is_(None) & (Lease.expires_at > now)


class ExcludedContexts:
    """The contexts that a worker must not get, looked up as they are needed: in a long round they are many."""

    def __init__(self, session: Session, questions: Sequence[Select[int | None]]) -> None:
        self._session, self._questions = session, questions

    def among(self, ids: Collection[int]) -> set[int]:
        """Those of these contexts that are among them."""
        return self._asked([one.where(one.selected_columns[0].in_(ids)) for one in self._questions] if ids else [])

    @cached_property
    def all(self) -> set[int]:
        """All of them."""
        return self._asked(self._questions)

    def _asked(self, questions: Sequence[Select[int | None]]) -> set[int]:
        return {one for question in questions for one in self._session.scalars(question) if one is not None}


def choose_contexts(
    session: Session, round: Round, strategy: str, seed: bytes, most: int, *, had: ExcludedContexts, now: datetime
) -> list[int]:
    """Up to so many contexts, the lowest rank first and equals as the seed draws them, but none that was had."""
    search = _Search(session, round.id, strategy, SeededOrder(seed), most)
    written_on = search.written_on(now)
    ranked: dict[Level, list[Placed]] = {}
    for standing, place in written_on:
        ranked.setdefault(search.level_of(standing), []).append((place, standing.id))
    busy = {standing.id for standing, _ in written_on}
    found: list[int] = []
    free = search.next_level(None)
    while len(found) < most and (ranked or free is not None):
        level = min([*ranked, *([] if free is None else [free])])
        equals = ranked.pop(level, [])
        if level == free:
            found += search.from_level(level, equals, busy, had)
            free = search.next_level(level) if len(found) < most else None
        else:
            found += [one for one in search.in_turn(equals) if one not in had.all]
    return found[:most]


class _Search:
    """One strategy's questions to the tallies of one round."""

    def __init__(self, session: Session, round_id: int, strategy: str, draw: SeededOrder, most: int) -> None:
        self._session, self._round_id, self._draw, self._most = session, round_id, draw, most
        self._rank, self._columns = RANKS[strategy], LEVELS[strategy]
        self._is_drawn = strategy != "in_order"
        self._order = ContextTally.lot if self._is_drawn else ContextTally.position
        self._start = draw.start if self._is_drawn else 0
        # SQLite takes an index over what is given out only for a question that says so itself.
        self._given_out = (ContextTally.round_id == round_id, ContextTally.lot.is_not(None))

    def written_on(self, now: datetime) -> list[tuple[ContextUsage, int]]:
        """The contexts on which somebody writes now, each with its place in its level."""
        tally = ContextTally
        # An outer join, so that no database begins with all the tallies.
        rows = self._session.execute(
            select(Lease.context_id, tally.position, tally.used, tally.fooled, tally.lot)
            .outerjoin(tally, (tally.context_id == Lease.context_id) & (tally.round_id == self._round_id))
            .where(is_live(now), Lease.context_id.is_not(None))
        )
        # What is given out no more, and what another task gives out, has no lot here.
        counted = Counter(row for row in rows if row.lot is not None)
        return [
            (ContextUsage(*row[:4], leased), self._place(row.lot if self._is_drawn else row.position))
            for row, leased in counted.items()
        ]

    def level_of(self, standing: ContextUsage) -> Level:
        """Its rank, as far as contexts of one level share it."""
        return self._rank(standing)[: max(1, len(self._columns))]

    def next_level(self, after: Level | None) -> Level | None:
        """The lowest level, or the lowest after that one, that has contexts; some of them may be barred."""
        if not self._columns:
            return (0,) if after is None else None
        higher = tuple_(*self._columns) > tuple_(*(after or (-1,) * len(self._columns)))
        lowest = select(*self._columns).where(*self._given_out, higher).order_by(*self._columns)
        found = self._session.execute(lowest.limit(1)).first()
        return None if found is None else tuple(found)

    def from_level(self, level: Level, equals: list[Placed], busy: Set[int], had: ExcludedContexts) -> list[int]:
        """Contexts of the level in turn: as many as are wanted, or all; those of its equals that are busy are given."""
        few = self._most + FEW
        # In order, the busy ones stand at the front.
        some, is_all = self._sample(level, equals, busy, few if self._is_drawn else few + len(busy))
        first = some[:few]
        barred = had.among(first)
        fit = [one for one in first if one not in barred]
        if len(fit) >= self._most or (is_all and len(first) == len(some)):
            return fit
        return self._all_of(level, equals, busy, had)

    def in_turn(self, equals: Iterable[Placed]) -> list[int]:
        """Equals in the order in which they are given out."""
        return [one for _, one in sorted((self._key(place, one), one) for place, one in equals)]

    def _sample(self, level: Level, equals: list[Placed], busy: Set[int], few: int) -> tuple[list[int], bool]:
        """The first few in turn of the window after the start, and whether they are the whole level.

        The database draws, so that few rows come from it.
        """
        found: list[Placed] = []
        left, last, sure = max(WINDOW, self._most), None, None
        for after, below in self._around():
            within = self._range(level, after, below).limit(left if self._is_drawn else few).subquery()
            order, context_id = within.c
            key = self._draw.of_column(context_id) if self._is_drawn else order
            rows = self._session.execute(
                select(order, context_id, func.max(order).over(), func.count().over()).order_by(key).limit(few)
            ).all()
            if not rows:
                continue
            found += [(self._place(row[0]), row[1]) for row in rows]
            *_, highest, number = rows[-1]
            if number > len(rows):
                # What comes after these in turn is not known.
                ends = self._key(*found[-1])
                sure = ends if sure is None else min(sure, ends)
            left -= number
            if left <= 0 or (not self._is_drawn and number == few):
                last = self._place(highest)
                break
        # One that somebody writes on is drawn as often as its equals are: with the windows that it lies in.
        here = [one for one in found if one[1] not in busy] + [one for one in equals if last is None or one[0] <= last]
        return (
            self.in_turn(one for one in here if sure is None or self._key(*one) <= sure),
            last is None and sure is None,
        )

    def _all_of(self, level: Level, equals: list[Placed], busy: Set[int], had: ExcludedContexts) -> list[int]:
        """The same where most of the first few were had: a window of those that were not, or the whole level."""
        enough = max(WINDOW, self._most) if self._is_drawn else self._most
        found = [one for one in equals if one[1] not in had.all]
        free: list[Placed] = []
        size = enough + FEW
        for after, below in self._around():
            more = True
            while more:
                size = min(2 * size, max(2 * WINDOW, size))
                rows = self._session.execute(self._range(level, after, below).limit(size)).all()
                free += [(self._place(order), one) for order, one in rows if one not in busy and one not in had.all]
                if len(free) >= enough:
                    last = free[enough - 1][0]
                    return self.in_turn([*free[:enough], *(one for one in found if one[0] <= last)])
                more = len(rows) == size
                after = rows[-1][0] or 0 if rows else after
        return self.in_turn([*free, *found])

    def _around(self) -> list[tuple[int, int | None]]:
        """From the start to the end, and then from the first one to the start."""
        return [(self._start - 1, None), (-1, self._start)] if self._start else [(-1, None)]

    def _range(self, level: Level, after: int, below: int | None) -> Select[int | None, int]:
        same = [column == value for column, value in zip(self._columns, level, strict=False)]
        rows = select(self._order, ContextTally.context_id).where(*self._given_out, *same, self._order > after)
        return (rows if below is None else rows.where(self._order < below)).order_by(self._order)

    def _key(self, place: int, context_id: int) -> int:
        return self._draw.of_id(context_id) if self._is_drawn else place

    def _place(self, order: int | None) -> int:
        beyond = (order or 0) - self._start
        return beyond if beyond >= 0 else beyond + PRIME
