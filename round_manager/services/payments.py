"""Use cases of money on a crowd: balance, bonus, top up, reconcile, statement, and the ledger."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import Hint
from round_manager.crowd import fair_pay, reviews
from round_manager.crowd.calls import check_account
from round_manager.crowd.fair_pay import DueTopUps, GroupWage, due_top_ups, new_top_ups, owe_fair_pay, round_wages
from round_manager.crowd.reconciliation import resolve_hit, resolve_payment
from round_manager.crowd.status import LooseEnds, loose_ends
from round_manager.errors import NothingHeld
from round_manager.loop.overview import held_for_a_person
from round_manager.loop.waiting import awaits_only_pay
from round_manager.models import EntryState, LedgerEntry, Round, Task
from round_manager.money import budget
from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext
from round_manager.tasks.rounds import list_rounds, live_round
from round_manager.tasks.tasks import find_task, list_tasks

PAGE = 100
APPROVED_TOP_UPS = "the owner approved the top-ups to the minimum hourly pay"
PLANNER = Actor("dry run")


@dataclass(frozen=True)
class AccountBalance:
    """The account's balance and what all tasks have reserved and owe."""

    account_cents: int
    tasks: list[budget.TaskMoney]

    @property
    def owed_cents(self) -> int:
        """What is owed, with fees."""
        return sum(one.owed_cents for one in self.tasks)

    @property
    def owed_bonuses_cents(self) -> int:
        """Owed bonuses, with fees: the marketplace sets rewards aside when HITs are posted, but not bonuses."""
        return sum(one.owed_bonuses_cents for one in self.tasks)

    @property
    def is_covered(self) -> bool:
        """Whether the account covers the owed bonuses."""
        return self.account_cents >= self.owed_bonuses_cents


@dataclass(frozen=True)
class GroupTopUp:
    """The top-ups of one HIT group in one round; None for HITs that belong to no round."""

    task: str
    round: int | None
    kind: str
    group_id: str
    assignments: int
    median_hourly_cents: int
    minimum_hourly_cents: int
    top_ups: int
    cents: int
    fee_cents: int


@dataclass(frozen=True)
class TopUpPlan:
    """The top-ups that would be owed now, and everything that would then be owed."""

    wages: list[GroupWage]
    groups: list[GroupTopUp]
    cents: int
    owed: list[budget.Owed]


@dataclass(frozen=True)
class StatementReport:
    """Statement lines, the newest day first; `drift_cents` is how far they differ from the stored sums, always 0."""

    lines: list[budget.StatementLine]
    drift_cents: int

    @property
    def adds_up(self) -> bool:
        """Whether every line adds up and nothing differs."""
        return all(line.adds_up for line in self.lines) and not self.drift_cents


class HeldOutcome(enum.StrEnum):
    """What a person found out about something that is held."""

    PAID = "paid"
    UNPAID = "unpaid"
    NOT_POSTED = "not posted"


@dataclass(frozen=True)
class LedgerRow:
    """One ledger entry, with the name of its task."""

    entry: LedgerEntry
    task: str


@dataclass(frozen=True)
class LedgerPage:
    """Ledger entries, the newest first; `next_before` continues the list, None at its end."""

    rows: list[LedgerRow]
    next_before: int | None


def account_cents(context: ServiceContext, crowd: ConnectedCrowd) -> int:
    """Return the account's balance; raise WrongCrowdAccount if it is not the account of our posted HITs."""
    cents = crowd.crowd.balance()
    check_account(context.store, crowd.crowd, now=context.now())
    return cents


def account_balance(context: ServiceContext, crowd: ConnectedCrowd) -> AccountBalance:
    """Return the account's balance and what all tasks have reserved and owe on this marketplace."""
    account = account_cents(context, crowd)
    with context.store.read() as session:
        return AccountBalance(account, budget.money_by_task(session, crowd.name))


def give_bonus(
    context: ServiceContext,
    actor: Actor,
    crowd: ConnectedCrowd,
    assignment: str,
    cents: int,
    *,
    reason: str,
    again: bool = False,
    dry_run: bool = False,
) -> LedgerEntry:
    """Owe a bonus to the worker of an assignment; the same one is given twice only with `again`."""
    give = reviews.give_bonus if again else reviews.give_bonus_once
    with context.store.dry_run() if dry_run else context.store.write() as session:
        work = reviews.find_assignment(session, crowd.name, assignment)
        return give(session, crowd.crowd, work, cents, reason, actor=actor.name, now=context.now())


def is_paid(context: ServiceContext, entry: LedgerEntry) -> bool:
    """Return whether a payment is confirmed."""
    with context.store.read() as session:
        return session.get_one(LedgerEntry, entry.id).state is EntryState.CONFIRMED


def owed_payments(context: ServiceContext, crowd: ConnectedCrowd) -> list[budget.Owed]:
    """Return what is owed and not sent, by kind."""
    with context.store.read() as session:
        return budget.owed_by_kind(session, crowd.name)


def plan_top_ups(
    context: ServiceContext, crowd: ConnectedCrowd, task: str | None = None, *, top_up: bool = True
) -> TopUpPlan:
    """Return the top-ups that bring low pay to the minimum; raise BudgetError if a budget does not cover them."""
    with context.store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        # Round by round, as the manager does it: a group's median over all rounds would be another one.
        wages = [wage for one in tasks for wage in round_wages(session, one)] if top_up else []
        new = new_top_ups(session, wages)
    groups = [
        _group_top_up(crowd, wage, [one.cents for one in top_ups]) for wage, top_ups in zip(wages, new, strict=True)
    ]
    cents, owed = _owe_top_ups(context, PLANNER, crowd, wages, dry_run=True)
    return TopUpPlan(wages, groups, cents, owed)


def owe_top_ups(context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, plan: TopUpPlan) -> int:
    """Owe the planned top-ups, once for each assignment; return the cents, without fees.

    This is the owner's approval of top-ups above the limit, and the audit log has it.
    """
    return _owe_top_ups(context, actor, crowd, plan.wages, dry_run=False)[0]


def find_due_top_ups(context: ServiceContext, task: str) -> DueTopUps:
    """Return what the live round's workers lack to the minimum, if the round waits for nothing else."""
    with context.store.read() as session:
        return _due(session, find_task(session, task), context.now())


def top_up_round(context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, task: str) -> DueTopUps:
    """Owe what the live round's workers lack to the minimum, if the round waits for nothing else.

    Return what was due. If it needs the owner's approval, nothing is owed.
    """
    due = find_due_top_ups(context, task)
    if not due.cents or due.need_approval:
        return due
    with context.store.write() as session:
        owner, now = find_task(session, task), context.now()
        due, live = _due(session, owner, now), live_round(session, owner.id)
        if live and due.cents and not due.need_approval:
            owe_fair_pay(session, crowd.crowd, live, actor=actor.name, now=now)
        return due


def statement_report(context: ServiceContext, task: str | None, *, last: date, days: int) -> StatementReport:
    """Return the statements of one task or of all tasks for a number of days, the newest first."""
    today = context.now().date()
    lines: list[budget.StatementLine] = []
    drifted = 0
    with context.store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        for day in (last - timedelta(days=back) for back in range(days)):
            for owner in tasks:
                if day < last and day < owner.created_at.astimezone(UTC).date():
                    continue
                # Nothing is dated in the future, so the end of today shows the current state.
                found = budget.statement(session, owner, at=budget.end_of(day))
                lines += found
                if day == today:
                    owners: list[Task | Round] = [owner, *list_rounds(session, owner)]
                    drifted += sum(budget.drift(session, one, line) for one, line in zip(owners, found, strict=True))
    return StatementReport(lines, drifted)


def find_loose_ends(context: ServiceContext, marketplace: str) -> LooseEnds:
    """Return HITs and payments that are in doubt, held, refused or astray."""
    with context.store.read() as session:
        return loose_ends(session, marketplace)


def count_held(context: ServiceContext) -> int:
    """Return how many HITs and payments are in doubt and wait for a person."""
    with context.store.read() as session:
        return held_for_a_person(session)


def resolve_held(
    context: ServiceContext,
    actor: Actor,
    marketplace: str,
    key: str,
    outcome: HeldOutcome,
    *,
    reason: str = "",
    dry_run: bool = False,
) -> str | None:
    """Record what a person found out about a held HIT or payment; return the key of the payment that is valid now."""
    is_hit = outcome is HeldOutcome.NOT_POSTED
    if dry_run:
        held = find_loose_ends(context, marketplace).held
        if not any(one.key == key and (one.what == "HIT") == is_hit for one in held):
            raise NothingHeld(f"no {'HIT' if is_hit else 'payment'} {key} is held", hint=Hint("show_crowd"))
        return None
    if is_hit:
        resolve_hit(context.store, key, actor=actor.name, reason=reason, now=context.now())
        return None
    paid = outcome is HeldOutcome.PAID
    return resolve_payment(context.store, key, paid=paid, actor=actor.name, reason=reason, now=context.now())


def list_ledger(
    context: ServiceContext, *, task: str | None = None, before: int | None = None, limit: int = PAGE
) -> LedgerPage:
    """Return a page of ledger entries, the newest first, of one task or of all tasks."""
    wanted = select(LedgerEntry, Task.name).join(Task, Task.id == LedgerEntry.task_id)
    with context.store.read() as session:
        if task is not None:
            wanted = wanted.where(LedgerEntry.task_id == find_task(session, task).id)
        if before is not None:
            wanted = wanted.where(LedgerEntry.id < before)
        found = session.execute(wanted.order_by(LedgerEntry.id.desc()).limit(limit + 1)).all()
    rows = [LedgerRow(*row) for row in found[:limit]]
    return LedgerPage(rows, rows[-1].entry.id if len(found) > limit else None)


def _due(session: Session, task: Task, now: datetime) -> DueTopUps:
    live = live_round(session, task.id)
    return due_top_ups(session, live) if live and awaits_only_pay(session, live, now=now) else DueTopUps()


def _owe_top_ups(
    context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, wages: Sequence[GroupWage], *, dry_run: bool
) -> tuple[int, list[budget.Owed]]:
    with context.store.dry_run() if dry_run else context.store.write() as session:
        cents = fair_pay.owe_top_ups(
            session, crowd.crowd, wages, actor=actor.name, reason=APPROVED_TOP_UPS, now=context.now()
        )
        return cents, budget.owed_by_kind(session, crowd.name)


def _group_top_up(crowd: ConnectedCrowd, wage: GroupWage, cents: Sequence[int]) -> GroupTopUp:
    return GroupTopUp(
        task=wage.task,
        round=wage.round,
        kind=wage.kind.value,
        group_id=wage.group_id,
        assignments=wage.assignments,
        median_hourly_cents=wage.median_hourly_cents,
        minimum_hourly_cents=wage.minimum_hourly_cents,
        top_ups=len(cents),
        cents=sum(cents),
        fee_cents=sum(crowd.crowd.bonus_price(one).fee_cents for one in cents),
    )
