"""Costs in people's time and in money, of a round and of each of its examples.

The time of an assignment is the active time on its page if it is known, else the time from accepting to submitting;
work outside a marketplace records its own time. Money is what is owed or paid, fees included. The pay of an assignment
is divided evenly among its examples or votes, to the cent; its time by their own times, or evenly if one of them is
unknown. A bonus belongs to its example.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.models import Assignment, EntryState, Example, Hit, HitKind, LedgerEntry, Round, Vote, WorkSession
from round_manager.money.bonuses import SUBMITTED
from round_manager.validation.voted_examples import VotedExample

SPENT = (EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED)
WORK = (HitKind.CREATE, HitKind.VALIDATE)
AT_ONCE = 5_000


@dataclass(frozen=True)
class Cost:
    """Milliseconds of people's time, and cents."""

    ms: int = 0
    cents: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.ms + other.ms, self.cents + other.cents)

    def part(self, place: int, own_ms: Sequence[int | None]) -> "Cost":
        """Return the share of one of several items, by the time of each; the shares add up to the whole.

        They include what was spent on items that do not count, such as skipped texts and gold items.
        """
        evenly = [1] * len(own_ms)
        known = [ms for ms in own_ms if ms is not None]
        by_time = known if len(known) == len(own_ms) and any(known) else evenly
        return Cost(_part(self.ms, place, by_time), _part(self.cents, place, evenly))


def crowd_cost(session: Session, round: Round) -> Cost:
    """Return what a round's HITs cost: the time of all submitted work, and all money owed or paid."""
    entry = LedgerEntry
    spent = select(func.sum(entry.cents + entry.fee_cents)).where(entry.round_id == round.id, entry.state.in_(SPENT))
    times = (
        select(Assignment.accepted_at, Assignment.submitted_at, Assignment.active_ms)
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(Hit.round_id == round.id, Hit.kind.in_(WORK), Assignment.status.in_(SUBMITTED))
        .execution_options(yield_per=AT_ONCE)
    )
    return Cost(sum(_ms(*row) for row in session.execute(times)), int(session.scalar(spent) or 0))


def in_house_cost(example: VotedExample) -> Cost:
    """Return the recorded time of an example and its votes that came from outside a marketplace."""
    told = [(example.session_id, example.active_ms), *((vote.session_id, vote.active_ms) for vote in example.votes)]
    return Cost(sum(ms or 0 for page, ms in told if page is None))


def costs_of(session: Session, examples: Sequence[VotedExample]) -> dict[int, Cost]:
    """Return what each example cost: its writing, its bonus and its validation."""
    shares = _shares(session, examples)
    costs = {}
    for example in examples:
        cost = in_house_cost(example) + shares.bonuses.get(example.id, Cost())
        places = [(example.session_id, example.item), *((vote.session_id, vote.item) for vote in example.votes)]
        for page, item in places:
            if page is not None:
                cost += shares.of(page, item)
        costs[example.id] = cost
    return costs


@dataclass(frozen=True)
class _Shares:
    whole: dict[int, Cost]
    items: dict[int, dict[int, int | None]]
    bonuses: dict[int, Cost]

    def of(self, page: int, item: int) -> Cost:
        """Return the cost of one item of a session; zero if the marketplace never confirmed it."""
        there = self.items.get(page, {})
        if page not in self.whole or item not in there:
            return Cost()
        return self.whole[page].part(list(there).index(item), list(there.values()))


def _shares(session: Session, examples: Sequence[VotedExample]) -> _Shares:
    pages = {example.session_id for example in examples} | {v.session_id for e in examples for v in e.votes}
    shares = _Shares({}, {}, {})
    known = sorted(page for page in pages if page is not None)
    for first in range(0, len(known), AT_ONCE):
        _add_pages(session, known[first : first + AT_ONCE], shares)
    return shares


def _add_pages(session: Session, pages: Sequence[int], shares: _Shares) -> None:
    wanted = (
        select(
            WorkSession.id, WorkSession.hit_id, Assignment.id,
            Assignment.accepted_at, Assignment.submitted_at, Assignment.active_ms,
        )
        .join(Assignment, Assignment.id == WorkSession.assignment_id)
        .where(WorkSession.id.in_(pages))
    )  # fmt: skip
    found = session.execute(wanted).all()
    pay, bonuses = _pay(session, {row[1] for row in found})
    shares.bonuses.update(bonuses)
    for page, _, assignment, accepted_at, submitted_at, active_ms in found:
        shares.whole[page] = Cost(_ms(accepted_at, submitted_at, active_ms), pay[assignment])
    for page, item, own_ms in _items(session, pages):
        shares.items.setdefault(page, {})[item] = own_ms


def _pay(session: Session, hit_ids: set[int]) -> tuple[Counter[int], dict[int, Cost]]:
    """Return what the HITs' assignments were paid, and the bonuses of their examples."""
    entry = LedgerEntry
    wanted = select(entry.assignment_id, entry.example_id, entry.cents + entry.fee_cents).where(
        entry.hit_id.in_(hit_ids), entry.state.in_(SPENT)
    )
    pay: Counter[int] = Counter()
    bonuses: dict[int, Cost] = {}
    for assignment_id, example_id, cents in session.execute(wanted):
        if example_id is not None:
            bonuses[example_id] = Cost(cents=cents)
        elif assignment_id is not None:
            pay[assignment_id] += cents
    return pay, bonuses


def _items(session: Session, pages: Sequence[int]) -> Iterator[tuple[int, int, int | None]]:
    """Yield the items of sessions that became examples or votes, in their order, with their own times."""
    for table in (Example, Vote):
        columns = select(table.session_id, table.item, table.active_ms)
        wanted = columns.where(table.session_id.in_(pages), table.session_id.is_not(None))
        for page, item, own_ms in session.execute(wanted.order_by(table.session_id, table.item)):
            if page is not None:
                yield page, item, own_ms


def _ms(accepted_at: datetime, submitted_at: datetime | None, active_ms: int | None) -> int:
    if active_ms is not None:
        return active_ms
    return max(0, round(((submitted_at or accepted_at) - accepted_at).total_seconds() * 1_000))


def _part(whole: int, place: int, weights: Sequence[int]) -> int:
    before, total = sum(weights[:place]), sum(weights)
    return whole * (before + weights[place]) // total - whole * before // total


@dataclass(frozen=True)
class PaidWork:
    """One assignment by its external id; the cents are the worker's, without fees, bonuses included."""

    assignment: str
    kind: HitKind
    cents: int


def paid_work(session: Session, round: Round) -> list[PaidWork]:
    """Return the assignments of the round with money owed or paid, oldest first."""
    wanted = (
        select(Assignment.external_id, Hit.kind, func.sum(LedgerEntry.cents))
        .join(LedgerEntry, LedgerEntry.assignment_id == Assignment.id)
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(LedgerEntry.round_id == round.id, LedgerEntry.state.in_(SPENT))
        .group_by(Assignment.id, Assignment.external_id, Hit.kind)
        .order_by(Assignment.id)
    )
    return [PaidWork(external, kind, int(cents)) for external, kind, cents in session.execute(wanted)]
