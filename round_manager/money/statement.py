"""The statement: where every cent of a budget was at a moment, from the entries' own times.

    reserved + owed + sent + released = budget

to the cent and for any moment; `released` is what was given back, was refused, or was never bound.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, case, func, not_, select
from sqlalchemy.orm import Session

from round_manager.models import Assignment, EntryKind, EntryState, Hit, LedgerEntry, Round, Task
from round_manager.money.budget import BudgetFigures, figures

DAY = timedelta(days=1)


@dataclass(frozen=True)
class StatementLine:
    """One round's money, or what belongs to no round, at one moment; `moved` is what the day before it changed."""

    task: str
    round: int | None
    at: datetime
    figures: BudgetFigures
    newly_reserved_cents: int
    newly_owed_cents: int
    newly_sent_cents: int
    newly_released_cents: int
    confirmed_cents: int
    fee_cents: int

    @property
    def adds_up(self) -> bool:
        """Whether every part is there and nothing is below zero."""
        parts = self.figures
        each = (parts.reserved_cents, parts.owed_cents, parts.sent_cents, parts.released_cents)
        return min(each) >= 0 and sum(each) == parts.budget_cents


def end_of(day: date) -> datetime:
    """The first moment after a day, in UTC."""
    return datetime.combine(day, time(), UTC) + DAY


def statement(session: Session, task: Task, *, at: datetime) -> list[StatementLine]:
    """The task's whole budget first, then its rounds; budgets are those of today."""
    rounds = session.scalars(select(Round).where(Round.task_id == task.id).order_by(Round.number)).all()
    whole = _line(session, task, None, LedgerEntry.task_id == task.id, task.budget_cents, at)
    return [whole, *(_line(session, task, one, LedgerEntry.round_id == one.id, one.budget_cents, at) for one in rounds)]


def drift(session: Session, owner: Task | Round, line: StatementLine) -> int:
    """By how many cents a statement of this moment differs from the sums that the database keeps; always 0."""
    kept = figures(session, owner)
    told = line.figures
    return (
        abs(kept.reserved_cents - told.reserved_cents)
        + abs(kept.owed_cents - told.owed_cents)
        + abs(kept.sent_cents - told.sent_cents)
    )


def _line(
    session: Session, task: Task, round: Round | None, whose: ColumnElement[bool], budget: int, at: datetime
) -> StatementLine:
    entry = LedgerEntry
    cents = entry.cents + entry.fee_cents
    owed, sent, settled = entry.owed_at < at, entry.sent_at < at, entry.settled_at < at
    paid = and_(settled, entry.state == EntryState.CONFIRMED)
    back = and_(settled, entry.state.in_((EntryState.RELEASED, EntryState.REFUSED)))
    since = at - DAY

    def total(condition: ColumnElement[bool], what: SQLColumnExpression[int] = cents) -> ColumnElement[int]:
        return func.coalesce(func.sum(case((condition, what), else_=0)), 0)

    # A comparison with a time that is not there is neither true nor false; `_yes` makes it false.
    row = session.execute(
        select(
            total(and_(not_(_yes(owed)), not_(_yes(back)))),
            total(and_(_yes(owed), not_(_yes(sent)))),
            total(and_(_yes(sent), not_(_yes(back)))),
            total(entry.reserved_at >= since),
            total(_yes(and_(owed, entry.owed_at >= since))),
            total(_yes(and_(sent, entry.sent_at >= since))),
            total(_yes(and_(back, entry.settled_at >= since))),
            total(_yes(paid)),
            total(_yes(paid), entry.fee_cents),
        ).where(whose, entry.reserved_at < at)
    ).one()
    parts = [int(part) for part in row]
    number = round.number if round else None
    return StatementLine(task.name, number, at, BudgetFigures(budget, *parts[:3]), *parts[3:])


def _yes(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return func.coalesce(condition, False)


@dataclass(frozen=True)
class TaskMoney:
    """A task's money on one marketplace, fees included; what was sent and not settled is `in_doubt`."""

    task: str
    budget_cents: int
    reserved_cents: int = 0
    owed_rewards_cents: int = 0
    owed_bonuses_cents: int = 0
    in_doubt_cents: int = 0
    paid_cents: int = 0

    @property
    def owed_cents(self) -> int:
        """What workers are owed, and its fees."""
        return self.owed_rewards_cents + self.owed_bonuses_cents


@dataclass(frozen=True)
class Owed:
    """So many payments of a kind that are owed and not sent."""

    kind: EntryKind
    count: int
    cents: int
    fee_cents: int


def money_by_task(session: Session, marketplace: str) -> list[TaskMoney]:
    """Every task's money there, by the tasks' names."""
    total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)
    wanted = (
        select(LedgerEntry.task_id, LedgerEntry.state, LedgerEntry.kind, total)
        .join(Hit, Hit.id == LedgerEntry.hit_id)
        .where(Hit.marketplace == marketplace)
        .group_by(LedgerEntry.task_id, LedgerEntry.state, LedgerEntry.kind)
    )
    sums: dict[int, dict[str, int]] = {}
    for task_id, state, kind, cents in session.execute(wanted):
        place = _place(state, kind)
        if place:
            held = sums.setdefault(task_id, {})
            held[place] = held.get(place, 0) + int(cents)
    tasks = session.scalars(select(Task).order_by(Task.name))
    return [TaskMoney(task.name, task.budget_cents, **sums.get(task.id, {})) for task in tasks]


def owed_by_kind(session: Session, marketplace: str) -> list[Owed]:
    """What payday would send, rewards first."""
    wanted = (
        select(LedgerEntry.kind, func.count(), func.sum(LedgerEntry.cents), func.sum(LedgerEntry.fee_cents))
        .join(Hit, Hit.id == LedgerEntry.hit_id)
        .where(Hit.marketplace == marketplace, LedgerEntry.state == EntryState.OWED)
        .group_by(LedgerEntry.kind)
    )
    found = [Owed(kind, count, int(cents), int(fees)) for kind, count, cents, fees in session.execute(wanted)]
    order = list(EntryKind)
    return sorted(found, key=lambda one: order.index(one.kind))


def reward_cost(session: Session, work: Assignment) -> int:
    """What the reward of that work costs, fee included."""
    any_reward = select(LedgerEntry.cents + LedgerEntry.fee_cents).where(
        LedgerEntry.hit_id == work.hit_id, LedgerEntry.kind == EntryKind.REWARD
    )
    return session.scalar(any_reward.limit(1)) or 0


def _place(state: EntryState, kind: EntryKind) -> str:
    if state is EntryState.OWED:
        return "owed_rewards_cents" if kind is EntryKind.REWARD else "owed_bonuses_cents"
    names = {
        EntryState.RESERVED: "reserved_cents",
        EntryState.SENT: "in_doubt_cents",
        EntryState.CONFIRMED: "paid_cents",
    }
    return names.get(state, "")
