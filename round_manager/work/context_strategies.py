"""Context strategies: which contexts a worker gets next, among any number of them.

Free contexts are found level by level through the indexes of the tallies. Nearly always the lowest level has enough of
them, and no lease but theirs is looked up. Otherwise the contexts that are leased now are ranked one by one. No query
reads more than a window of a level, apart from these and the contexts that the worker must not get.
"""

import hashlib
import hmac
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Select,
    bindparam,
    func,
    literal,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from round_manager.models import ContextTally, Lease, Round, Task, WorkSession

# Ids below 2^32, and then numbers below this prime, are multiplied by others below it: this stays within the
# databases' 64 bits.
PRIME = 2**31 - 1

Number = TypeVar("Number", int, ColumnElement[int])


def seed_of(session: Session, work: WorkSession, task_id: int) -> bytes:
    """Return the seed of a session's orders: always the same, and secret to its worker."""
    # A page knows its session's id, so the id alone would reveal which items are gold.
    salt = session.get_one(Task, task_id).worker_salt
    return hmac.digest(salt.encode(), f"lots of {work.public_id}".encode(), hashlib.sha256)


def order_key(seed: bytes, *what: object) -> bytes:
    """Return the sort key of something in the seed's order."""
    return hmac.digest(seed, repr(what).encode(), hashlib.sha256)


class SeededOrder:
    """The sort keys of contexts in a seed's order, and the lot at which it starts."""

    def __init__(self, seed: bytes) -> None:
        drawn = order_key(seed, "context")
        times, plus, self.start = (int.from_bytes(drawn[part : part + 8]) % PRIME for part in (0, 8, 16))
        self._times, self._plus = max(1, times), plus

    @property
    def values(self) -> dict[str, object]:
        """The parameters of a query that sorts by the keys."""
        return {"times": self._times, "plus": self._plus}

    def of_id(self, context_id: int) -> int:
        """Return the sort key of one context."""
        return _sort_key(context_id, self._times, self._plus)

    def of_column(self, context_id: ColumnElement[int] | InstrumentedAttribute[int]) -> ColumnElement[int]:
        """Return the sort key of the contexts of a query."""
        return _sort_key(context_id, literal(self._times), literal(self._plus))


def _sort_key(context_id: Any, times: Number, plus: Number) -> Number:
    place: Number = (context_id * times + plus) % PRIME
    # Without mixing, keys are evenly spaced, and the first and the last id would be lowest too often.
    return place * place % PRIME * place % PRIME


# Among equal contexts, the draw considers at most this many: those that follow the session's start in the order of
# their lots. Lots are spread evenly, so every context is considered about as often as any other, within a few percent.
WINDOW = 1_000
# How many more than wanted are read from the database, as the worker may have excluded some of them.
FEW = 30
# Beyond every lot and position.
LAST_PLACE = 2**62


@dataclass(frozen=True)
class ContextUsage:
    """How a context is used in its round: examples, examples that fooled, and leases now.

    The values are numbers of one context, or the columns of all.
    """

    id: Any
    position: Any
    used: Any
    fooled: Any
    leased: Any


# The context with the lowest rank is assigned; equal ones are drawn. A leased context counts as used and as fooled, so
# that workers who arrive at the same time are spread like workers who arrive one after the other.
RANKS: dict[str, Callable[[ContextUsage], tuple[Any, ...]]] = {
    "uniform": lambda one: (one.leased,),
    "least_used": lambda one: (one.used + one.leased,),
    "least_fooled": lambda one: (one.fooled + one.leased, one.used),
    "in_order": lambda one: (one.used + one.leased, one.position),
}
# The columns that order free contexts before their lot or position does; each has an index.
LEVELS: dict[str, tuple[InstrumentedAttribute[int], ...]] = {
    "uniform": (),
    "least_used": (ContextTally.used,),
    "least_fooled": (ContextTally.fooled, ContextTally.used),
    "in_order": (ContextTally.used,),
}
Level = tuple[int, ...]
# A context's place in its level and its id.
Placed = tuple[int, int]


def is_live(now: datetime | ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition of a lease that has not ended."""
    return Lease.ended_at.is_(None) & (Lease.expires_at > now)


class ExclusionQueries:
    """The queries for the contexts that a worker must not get; built once, with parameters."""

    def __init__(self, *queries: Select[int | None]) -> None:
        self.all = union_all(*queries)
        among: BindParameter[Any] = bindparam("among", expanding=True)
        self.among = union_all(*(one.where(one.selected_columns[0].in_(among)) for one in queries))


class ExcludedContexts:
    """The contexts that a worker must not get, looked up when needed: in a long round they are many."""

    def __init__(self, session: Session, queries: ExclusionQueries, values: Mapping[str, object]) -> None:
        self._session, self._queries, self._values = session, queries, values

    def among(self, ids: Collection[int]) -> set[int]:
        """Return those of these contexts that are excluded."""
        if not ids:
            return set()
        return set(self._session.scalars(self._queries.among, {**self._values, "among": list(ids)}))

    @cached_property
    def all(self) -> set[int]:
        """Every excluded context."""
        return set(self._session.scalars(self._queries.all, self._values))


def choose_contexts(
    session: Session, round: Round, strategy: str, seed: bytes, most: int, *, excluded: ExcludedContexts, now: datetime
) -> list[int]:
    """Return up to `most` contexts that are not excluded, the lowest rank first, equal ones as the seed draws them."""
    search = _Search(session, round.id, strategy, SeededOrder(seed), most)
    with _index_order(session):
        lowest = search.next_level(None)
        found = [] if lowest is None else search.free_ones(lowest, excluded, now)
    return found if len(found) == most else _ranked_contexts(session, search, most, excluded, now)


def _ranked_contexts(
    session: Session, search: "_Search", most: int, excluded: ExcludedContexts, now: datetime
) -> list[int]:
    """Return up to `most` contexts, with those that are leased now where their leases put them."""
    written_on = search.written_on(now)
    ranked: dict[Level, list[Placed]] = {}
    for standing, place in written_on:
        ranked.setdefault(search.level_of(standing), []).append((place, standing.id))
    busy = {standing.id for standing, _ in written_on}
    found: list[int] = []
    with _index_order(session):
        free = search.next_level(None)
        while len(found) < most and (ranked or free is not None):
            level = min([*ranked, *([] if free is None else [free])])
            equals = ranked.pop(level, [])
            if level == free:
                found += search.from_level(level, equals, busy, excluded)
                free = search.next_level(level) if len(found) < most else None
            else:
                found += [one for one in search.in_turn(equals) if one not in excluded.all]
    return found[:most]


@contextmanager
def _index_order(session: Session) -> Iterator[None]:
    """Keep PostgreSQL from sorting or scanning all of a table, whatever its statistics say: the indexes fit already."""
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    settings = ("enable_sort", "enable_incremental_sort", "enable_seqscan")
    # Local to the transaction; the caller's next statements may do both again.
    session.execute(select(*(func.set_config(name, "off", True) for name in settings)))
    yield
    session.execute(select(*(func.set_config(name, "on", True) for name in settings)))


@dataclass(frozen=True)
class _LevelQueries:
    """The queries of a strategy for the contexts of a level; built once, with parameters.

    `next` finds the first level after another. The others find contexts between two places, in the order of the
    strategy's index: `range` all, `free` those without a lease, `sample` the first few in the seed's order, with the
    last place and the number of all.
    """

    next: Select[*tuple[Any, ...]]
    range: Select[*tuple[Any, ...]]
    free: Select[*tuple[Any, ...]]
    sample: Select[*tuple[Any, ...]]


@cache
def _level_queries(strategy: str) -> _LevelQueries:
    columns, is_drawn = LEVELS[strategy], strategy != "in_order"
    order = ContextTally.lot if is_drawn else ContextTally.position
    level = [_number(name) for name in _level_values((0,) * len(columns))]
    # SQLite uses a partial index only for a query that repeats its condition.
    handed_out = ContextTally.lot.is_not(None)
    # All columns of the index are compared and sorted as one row, so that no other index fits: with separate
    # conditions, PostgreSQL may choose one and filter the whole round if its statistics are out of date.
    index, start = (ContextTally.round_id, *columns, order), (_number("round"), *level)
    between = tuple_(*index) > tuple_(*start, _number("after")), tuple_(*index) < tuple_(*start, _number("below"))
    within = select(order, ContextTally.context_id).where(handed_out, *between).order_by(*index)
    within = within.limit(bindparam("most"))
    # Leases are counted, not joined, and no index has this form of their time: what is left is the index of a context's
    # leases. By the index of their times, PostgreSQL would read all of them for each context.
    is_unexpired = func.coalesce(Lease.expires_at, bindparam("now")) > bindparam("now")
    leases = select(func.count()).where(
        Lease.context_id == ContextTally.context_id, Lease.ended_at.is_(None), is_unexpired
    )
    place, context_id = within.subquery().c
    key = _sort_key(context_id, _number("times"), _number("plus")) if is_drawn else place
    sample = select(place, context_id, func.max(place).over(), func.count().over()).order_by(key)
    higher = [tuple_(*columns) > tuple_(*level)] if columns else []
    following = select(*columns).where(ContextTally.round_id == bindparam("round"), handed_out, *higher)
    return _LevelQueries(
        next=following.order_by(*columns).limit(1),
        range=within,
        free=within.where(leases.scalar_subquery() == 0),
        sample=sample.limit(bindparam("few")),
    )


_LEASED_AMONG = select(Lease.context_id).where(
    Lease.context_id.in_(bindparam("among", expanding=True)), is_live(bindparam("now"))
)


def _number(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=BigInteger())


def _level_values(level: Level) -> dict[str, object]:
    return {f"level_{number}": value for number, value in enumerate(level)}


class _Search:
    """The queries of one strategy on the tallies of one round."""

    def __init__(self, session: Session, round_id: int, strategy: str, draw: SeededOrder, most: int) -> None:
        self._session, self._round_id, self._draw, self._most = session, round_id, draw, most
        self._rank, self._columns, self._queries = RANKS[strategy], LEVELS[strategy], _level_queries(strategy)
        self._is_drawn = strategy != "in_order"
        self._start = draw.start if self._is_drawn else 0

    def written_on(self, now: datetime) -> list[tuple[ContextUsage, int]]:
        """Return the contexts that are leased now, each with its place in its level."""
        leased = select(Lease.context_id, func.count()).where(is_live(now), Lease.context_id.is_not(None))
        counted = {one: int(leases) for one, leases in self._session.execute(leased.group_by(Lease.context_id))}
        if not counted:
            return []
        # Looked up by their ids, not joined: without statistics, PostgreSQL would read all tallies for each lease.
        tally = ContextTally
        rows = self._session.execute(
            select(tally.context_id, tally.position, tally.used, tally.fooled, tally.lot).where(
                tally.round_id == self._round_id, tally.context_id.in_(counted)
            )
        )
        # Retired contexts, and those of other tasks, have no lot here.
        return [
            (ContextUsage(*row[:4], counted[row.context_id]), self._place(row.lot if self._is_drawn else row.position))
            for row in rows
            if row.lot is not None
        ]

    def level_of(self, standing: ContextUsage) -> Level:
        """Return the part of the rank that contexts of one level share."""
        return self._rank(standing)[: max(1, len(self._columns))]

    def next_level(self, after: Level | None) -> Level | None:
        """Return the lowest level with contexts, or the lowest after another; some of its contexts may be excluded."""
        if not self._columns:
            return (0,) if after is None else None
        values = {"round": self._round_id, **_level_values(after or (-1,) * len(self._columns))}
        found = self._session.execute(self._queries.next, values).first()
        return None if found is None else tuple(found)

    def free_ones(self, lowest: Level, excluded: ExcludedContexts, now: datetime) -> list[int]:
        """Return up to as many contexts as wanted of the lowest level, in order, if they are among its first few.

        A leased context ranks above its level, so no other context comes before a free one of the lowest level.
        """
        few = self._most + FEW
        if self._is_drawn:
            some = self._sample(lowest, [], frozenset(), few)[0][:few]
            leased = set(self._session.scalars(_LEASED_AMONG, {"among": some, "now": now}))
        else:
            # Here the first ones of the level are the leased ones, however many they are.
            values = {**self._places(lowest, -1, None), "most": few, "now": now}
            some, leased = [one for _, one in self._session.execute(self._queries.free, values)], set()
        barred = leased | excluded.among(some)
        return [one for one in some if one not in barred][: self._most]

    def from_level(self, level: Level, equals: list[Placed], busy: Set[int], excluded: ExcludedContexts) -> list[int]:
        """Return contexts of the level in order: as many as wanted, or all; `equals` are its leased ones."""
        few = self._most + FEW
        # In the strategy `in_order`, leased contexts come first.
        some, is_all = self._sample(level, equals, busy, few if self._is_drawn else few + len(busy))
        first = some[:few]
        barred = excluded.among(first)
        fit = [one for one in first if one not in barred]
        if len(fit) >= self._most or (is_all and len(first) == len(some)):
            return fit
        return self._all_of(level, equals, busy, excluded)

    def in_turn(self, equals: Iterable[Placed]) -> list[int]:
        """Return equal contexts in the order in which they are assigned."""
        return [one for _, one in sorted((self._key(place, one), one) for place, one in equals)]

    def _sample(self, level: Level, equals: list[Placed], busy: Set[int], few: int) -> tuple[list[int], bool]:
        """Return the first few contexts of the window after the start, and whether they are the whole level.

        The database sorts, so that it returns few rows.
        """
        found: list[Placed] = []
        left, last, sure = max(WINDOW, self._most), None, None
        for after, below in self._around():
            values = {**self._places(level, after, below), "most": left if self._is_drawn else few, "few": few}
            rows = self._session.execute(self._queries.sample, {**values, **self._draw.values}).all()
            if not rows:
                continue
            found += [(self._place(row[0]), row[1]) for row in rows]
            *_, highest, number = rows[-1]
            if number > len(rows):
                # Contexts after the last of these are unknown.
                ends = self._key(*found[-1])
                sure = ends if sure is None else min(sure, ends)
            left -= number
            if left <= 0 or (not self._is_drawn and number == few):
                last = self._place(highest)
                break
        # A leased context is drawn as often as its equals: whenever its window is.
        here = [one for one in found if one[1] not in busy] + [one for one in equals if last is None or one[0] <= last]
        return (
            self.in_turn(one for one in here if sure is None or self._key(*one) <= sure),
            last is None and sure is None,
        )

    def _all_of(self, level: Level, equals: list[Placed], busy: Set[int], excluded: ExcludedContexts) -> list[int]:
        """Return the same if most of the first few were excluded: a window of the others, or the whole level."""
        enough = max(WINDOW, self._most) if self._is_drawn else self._most
        found = [one for one in equals if one[1] not in excluded.all]
        free: list[Placed] = []
        size = enough + FEW
        for after, below in self._around():
            more = True
            while more:
                size = min(2 * size, max(2 * WINDOW, size))
                values = {**self._places(level, after, below), "most": size}
                rows = self._session.execute(self._queries.range, values).all()
                free += [
                    (self._place(order), one) for order, one in rows if one not in busy and one not in excluded.all
                ]
                if len(free) >= enough:
                    last = free[enough - 1][0]
                    return self.in_turn([*free[:enough], *(one for one in found if one[0] <= last)])
                more = len(rows) == size
                after = rows[-1][0] or 0 if rows else after
        return self.in_turn([*free, *found])

    def _around(self) -> list[tuple[int, int | None]]:
        """Return the ranges from the start to the end, and from the first one to the start."""
        return [(self._start - 1, None), (-1, self._start)] if self._start else [(-1, None)]

    def _places(self, level: Level, after: int, below: int | None) -> dict[str, object]:
        """Return the parameters of a query for a level's contexts between two places."""
        places = {"round": self._round_id, "after": after, "below": LAST_PLACE if below is None else below}
        return {**places, **_level_values(level[: len(self._columns)])}

    def _key(self, place: int, context_id: int) -> int:
        return self._draw.of_id(context_id) if self._is_drawn else place

    def _place(self, order: int | None) -> int:
        beyond = (order or 0) - self._start
        return beyond if beyond >= 0 else beyond + PRIME
