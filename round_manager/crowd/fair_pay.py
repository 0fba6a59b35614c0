"""Fair pay: what an hour of work paid, and the top-up that brings it to the task's minimum.

An assignment's time is the active time on its page if that is known, or else the time from acceptance to submission.
One worker's long break must not decide, so a group's wage is the median, and its top-up follows from the median time:
every worker of the group gets at least what the minimum pays for that time. At least half of them then reach the
minimum, and so does the median.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from statistics import median

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from crowd.port import Crowd
from round_manager.crowd.payments import REASONS
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Hit,
    HitKind,
    LedgerEntry,
    Round,
    Task,
    spec_of,
)
from round_manager.money.ledger import Debt, owe_new, owed_entry

HOUR = 3_600
PAID_STATES = (EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED)
ROWS_AT_A_TIME = 1_000


@dataclass(frozen=True)
class PaidAssignment:
    """An approved assignment of a HIT group, with its time (at least one second) and the cents that it pays."""

    group_id: str
    kind: HitKind
    assignment_id: int
    worker_id: int
    seconds: float
    cents: int

    @property
    def hourly_cents(self) -> float:
        """The pay for an hour at this pace."""
        return self.cents * HOUR / self.seconds


@dataclass(frozen=True)
class GroupWage:
    """The median pay of a HIT group; `lacking` has the missing cents of each assignment if the pay is too low."""

    group_id: str
    task: str
    kind: HitKind
    assignments: int
    median_seconds: float
    median_hourly_cents: int
    minimum_hourly_cents: int
    lacking: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_low(self) -> bool:
        """Whether the median pay is below the task's minimum."""
        return self.median_hourly_cents < self.minimum_hourly_cents

    @property
    def fair_cents(self) -> int:
        """What the minimum pays for the median time, rounded up."""
        return -(-self.minimum_hourly_cents * round(self.median_seconds * 1_000) // (HOUR * 1_000))


def group_wages(session: Session, task: Task, *, round: Round | None = None) -> list[GroupWage]:
    """Return the pay of the task's HIT groups, from approved work; with a round, of that round and by its terms."""
    minimum = spec_of(round or task).pay.minimum_hourly_cents
    groups = groupby(earned_work(session, task, round=round), lambda one: (one.group_id, one.kind))
    return [_wage(group, task.name, kind, earned, minimum) for (group, kind), earned in groups]


def earned_work(session: Session, task: Task, *, round: Round | None = None) -> Iterator[PaidAssignment]:
    """Yield the approved work of a task or of one round, group by group, without loading all of it."""
    pay = (
        select(LedgerEntry.assignment_id, func.sum(LedgerEntry.cents).label("cents"))
        .where(LedgerEntry.task_id == task.id, LedgerEntry.state.in_(PAID_STATES))
        .group_by(LedgerEntry.assignment_id)
        .subquery()
    )
    wanted = (
        select(
            Hit.group_id,
            Hit.kind,
            Assignment.id,
            Assignment.worker_id,
            Assignment.accepted_at,
            Assignment.submitted_at,
            Assignment.active_ms,
            pay.c.cents,
        )
        .join(Assignment, Assignment.hit_id == Hit.id)
        .join(pay, pay.c.assignment_id == Assignment.id)
        .where(Hit.task_id == task.id, Assignment.status == AssignmentStatus.APPROVED, Hit.group_id.is_not(None))
        .order_by(Hit.group_id, Hit.kind, Assignment.id)
        .execution_options(yield_per=ROWS_AT_A_TIME)
    )
    if round is not None:
        wanted = wanted.where(Hit.round_id == round.id)
    for group, kind, number, worker, accepted_at, submitted_at, active_ms, cents in session.execute(wanted):
        elapsed = ((submitted_at or accepted_at) - accepted_at).total_seconds()
        seconds = max(1.0, elapsed if active_ms is None else active_ms / 1_000)
        yield PaidAssignment(group, kind, number, worker, seconds, int(cents))


def owe_top_ups(session: Session, crowd: Crowd, wages: Sequence[GroupWage], *, now: datetime) -> int:
    """Owe top-ups to low-paid groups, once for each assignment; return the cents, without fees."""
    debts = []
    for wage in wages:
        for assignment_id, cents in wage.lacking.items():
            work = session.get_one(Assignment, assignment_id)
            if owed_entry(session, work, EntryKind.TOP_UP) is None:
                debts.append(Debt(work, EntryKind.TOP_UP, crowd.bonus_price(cents), REASONS[EntryKind.TOP_UP]))
    owe_new(session, debts, now=now)
    return sum(debt.price.cents for debt in debts)


def new_top_ups(session: Session, wages: Iterable[GroupWage]) -> dict[str, list[int]]:
    """Return the cents of each top-up that would be owed now, by HIT group; an assignment gets one top-up at most."""
    owed = (LedgerEntry.kind == EntryKind.TOP_UP, LedgerEntry.state != EntryState.REFUSED)
    had = set(session.scalars(select(LedgerEntry.assignment_id).where(*owed)))
    return {
        wage.group_id: [cents for assignment, cents in wage.lacking.items() if assignment not in had] for wage in wages
    }


def missing_cents(session: Session, round: Round) -> int:
    """Return what the round's workers lack to the minimum and are not owed yet, without fees."""
    if not spec_of(round).pay.minimum_hourly_cents:
        return 0
    wages = group_wages(session, session.get_one(Task, round.task_id), round=round)
    return sum(sum(cents) for cents in new_top_ups(session, wages).values())


def owe_fair_pay(session: Session, crowd: Crowd, round: Round, *, now: datetime) -> int:
    """Owe the top-ups of a round whose work is decided; return the cents, without fees.

    Not before: a median takes all workers into account, and each assignment gets one top-up at most. Raises
    BudgetError, and changes nothing, if the budget does not cover them.
    """
    wages = group_wages(session, session.get_one(Task, round.task_id), round=round)
    return owe_top_ups(session, crowd, wages, now=now)


def _wage(group: str, task: str, kind: HitKind, earned: Iterable[PaidAssignment], minimum: int) -> GroupWage:
    # A median needs all values, and a round has many: arrays of numbers instead of objects.
    ids, cents, seconds, hourly = array("q"), array("q"), array("d"), array("d")
    for one in earned:
        ids.append(one.assignment_id)
        cents.append(one.cents)
        seconds.append(one.seconds)
        hourly.append(one.hourly_cents)
    wage = GroupWage(
        group_id=group,
        task=task,
        kind=kind,
        assignments=len(ids),
        median_seconds=median(seconds),
        median_hourly_cents=int(median(hourly)),
        minimum_hourly_cents=minimum,
    )
    if not wage.is_low:
        return wage
    fair = wage.fair_cents
    return replace(wage, lacking={number: fair - had for number, had in zip(ids, cents, strict=True) if had < fair})
