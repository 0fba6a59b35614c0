"""Budgets: what a task and a round may spend, and how much of it is reserved, owed and sent."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, case, func, not_, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import dollars
from round_manager import audit
from round_manager.errors import BudgetError, RoundAlreadyClosed
from round_manager.models import Assignment, EntryKind, EntryState, Hit, LedgerEntry, Round, RoundStatus, Task


@dataclass(frozen=True)
class BudgetFigures:
    """A budget and its parts; what is neither reserved, owed nor sent is released."""

    budget_cents: int
    reserved_cents: int
    owed_cents: int
    sent_cents: int

    @property
    def released_cents(self) -> int:
        """What can still be reserved."""
        return self.budget_cents - self.reserved_cents - self.owed_cents - self.sent_cents

    def __str__(self) -> str:
        parts = (("reserved", self.reserved_cents), ("owed", self.owed_cents), ("sent", self.sent_cents))
        return f"budget {dollars(self.budget_cents)}: " + ", ".join(f"{dollars(cents)} {word}" for word, cents in parts)


def figures(session: Session, owner: Task | Round, *, lock: bool = False) -> BudgetFigures:
    """Return the budget of a task or a round; with `lock`, other processes cannot change it in this transaction."""
    table = type(owner)
    wanted = select(table.budget_cents, table.reserved_cents, table.owed_cents, table.sent_cents)
    wanted = wanted.where(table.id == owner.id)
    return BudgetFigures(*session.execute(wanted.with_for_update(key_share=True) if lock else wanted).one())


def free_cents(session: Session, round: Round) -> int:
    """Return what can still be reserved for the round: the lesser of the round's and the task's remaining budget."""
    task = session.get_one(Task, round.task_id)
    return min(figures(session, round).released_cents, figures(session, task).released_cents)


def set_round_budget(
    session: Session, task: Task, round: Round, cents: int, *, actor: str, reason: str, now: datetime
) -> BudgetFigures:
    """Set the budget of a round that is not closed: at least what is bound, at most the task's budget."""
    before = figures(session, round, lock=True)
    bound = before.budget_cents - before.released_cents
    if round.status is RoundStatus.CLOSED:
        raise RoundAlreadyClosed(f"round {round.number} of {task.name} is closed; its budget cannot change")
    if cents < bound:
        raise BudgetError(f"round {round.number} of {task.name} has already bound {dollars(bound)} ({before})")
    if cents > task.budget_cents:
        problem = f"task {task.name} may cost {dollars(task.budget_cents)}; raise budget.task_cents in task.yaml first"
        raise BudgetError(problem, hint=Hint("apply_task_yaml", task=task.name))
    round.budget_cents = cents
    note = {"before": {"budget_cents": before.budget_cents}, "after": {"budget_cents": cents}}
    audit.note(session, "changed the budget", round, actor=actor, reason=reason, now=now, of=round, **note)
    session.flush()
    return figures(session, round)


def check_budget(session: Session, task: Task, round: Round | None, cents: int) -> None:
    """Raise BudgetError if a budget does not cover an amount.

    The database also refuses it; this check gives a clear message, and waits for concurrent transactions.
    """
    owners: list[Task | Round] = [task] if round is None else [round, task]
    for owner in owners:
        now = figures(session, owner, lock=True)
        if cents > now.released_cents:
            called = f"task {task.name}" if isinstance(owner, Task) else f"round {owner.number} of {task.name}"
            problem = f"{called} has {dollars(now.released_cents)} left ({now}), and this needs {dollars(cents)}"
            if isinstance(owner, Round):
                raise BudgetError(f"{problem}; raise its budget", hint=Hint("set_round_budget", task=task.name))
            raise BudgetError(
                f"{problem}; raise budget.task_cents in task.yaml", hint=Hint("apply_task_yaml", task=task.name)
            )


DAY = timedelta(days=1)


@dataclass(frozen=True)
class StatementLine:
    """The money of a round, or of a whole task, at one time; `newly_…` is what the day before it changed."""

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
        """Whether the parts add up to the budget and none is negative."""
        parts = self.figures
        each = (parts.reserved_cents, parts.owed_cents, parts.sent_cents, parts.released_cents)
        return min(each) >= 0 and sum(each) == parts.budget_cents


def end_of(day: date) -> datetime:
    """Return the end of a day in UTC."""
    return datetime.combine(day, time(), UTC) + DAY


def statement(session: Session, task: Task, *, at: datetime) -> list[StatementLine]:
    """Return the task's whole budget first, then its rounds; the budgets are today's."""
    rounds = session.scalars(select(Round).where(Round.task_id == task.id).order_by(Round.number)).all()
    whole = _line(session, task, None, LedgerEntry.task_id == task.id, task.budget_cents, at)
    return [whole, *(_line(session, task, one, LedgerEntry.round_id == one.id, one.budget_cents, at) for one in rounds)]


def drift(session: Session, owner: Task | Round, line: StatementLine) -> int:
    """Return by how many cents a statement of now differs from the sums in the database; always 0."""
    stored = figures(session, owner)
    stated = line.figures
    return (
        abs(stored.reserved_cents - stated.reserved_cents)
        + abs(stored.owed_cents - stated.owed_cents)
        + abs(stored.sent_cents - stated.sent_cents)
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

    # A comparison with NULL is NULL; `_is_true` makes it false.
    row = session.execute(
        select(
            total(and_(not_(_is_true(owed)), not_(_is_true(back)))),
            total(and_(_is_true(owed), not_(_is_true(sent)))),
            total(and_(_is_true(sent), not_(_is_true(back)))),
            total(entry.reserved_at >= since),
            total(_is_true(and_(owed, entry.owed_at >= since))),
            total(_is_true(and_(sent, entry.sent_at >= since))),
            total(_is_true(and_(back, entry.settled_at >= since))),
            total(_is_true(paid)),
            total(_is_true(paid), entry.fee_cents),
        ).where(whose, entry.reserved_at < at)
    ).one()
    parts = [int(part) for part in row]
    number = round.number if round else None
    return StatementLine(task.name, number, at, BudgetFigures(budget, *parts[:3]), *parts[3:])


def _is_true(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return func.coalesce(condition, False)


@dataclass(frozen=True)
class TaskMoney:
    """A task's money on one marketplace, with fees; `in_doubt` was sent and is not settled."""

    task: str
    budget_cents: int
    reserved_cents: int = 0
    owed_rewards_cents: int = 0
    owed_bonuses_cents: int = 0
    in_doubt_cents: int = 0
    paid_cents: int = 0

    @property
    def owed_cents(self) -> int:
        """What workers are owed, with fees."""
        return self.owed_rewards_cents + self.owed_bonuses_cents


@dataclass(frozen=True)
class Owed:
    """The payments of one kind that are owed and not sent."""

    kind: EntryKind
    count: int
    cents: int
    fee_cents: int


def money_by_task(session: Session, marketplace: str) -> list[TaskMoney]:
    """Return the money of every task on a marketplace, by name."""
    total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)
    wanted = (
        select(LedgerEntry.task_id, LedgerEntry.state, LedgerEntry.kind, total)
        .join(Hit, Hit.id == LedgerEntry.hit_id)
        .where(Hit.marketplace == marketplace)
        .group_by(LedgerEntry.task_id, LedgerEntry.state, LedgerEntry.kind)
    )
    sums: dict[int, dict[str, int]] = {}
    for task_id, state, kind, cents in session.execute(wanted):
        column = _column(state, kind)
        if column:
            task_sums = sums.setdefault(task_id, {})
            task_sums[column] = task_sums.get(column, 0) + int(cents)
    tasks = session.scalars(select(Task).order_by(Task.name))
    return [TaskMoney(task.name, task.budget_cents, **sums.get(task.id, {})) for task in tasks]


def owed_by_kind(session: Session, marketplace: str) -> list[Owed]:
    """Return what would be paid now, rewards first."""
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
    """Return the price of an assignment's reward, with its fee."""
    any_reward = select(LedgerEntry.cents + LedgerEntry.fee_cents).where(
        LedgerEntry.hit_id == work.hit_id, LedgerEntry.kind == EntryKind.REWARD
    )
    return session.scalar(any_reward.limit(1)) or 0


def _column(state: EntryState, kind: EntryKind) -> str:
    if state is EntryState.OWED:
        return "owed_rewards_cents" if kind is EntryKind.REWARD else "owed_bonuses_cents"
    names = {
        EntryState.RESERVED: "reserved_cents",
        EntryState.SENT: "in_doubt_cents",
        EntryState.CONFIRMED: "paid_cents",
    }
    return names.get(state, "")
