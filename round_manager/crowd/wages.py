"""Fair pay: what an hour of work really paid, and the bonus that brings it to the task's minimum.

The time of an assignment is the active time on its page where that is known, else from accepting to handing in. One
person's long lunch must not decide, and must not pay, so a group's wage is the median and its top-up goes by the median
time: with t that time, everybody in the group gets at least what the minimum pays for t. Whoever needed no longer than
t, half of them at least, has then reached the minimum, and so has the median.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.crowd import Crowd
from round_manager.crowd.payday import REASONS
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
)
from round_manager.money.ledger import Debt, owe_new, owed_entry
from round_manager.tasks.tasks import spec_of

HOUR = 3_600
PAID_STATES = (EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED)


@dataclass(frozen=True)
class Earned:
    """One approved assignment: seconds, and cents that it brought or will bring."""

    assignment_id: int
    elapsed_seconds: float
    active_seconds: float | None
    cents: int

    @property
    def seconds(self) -> float:
        """The time that counts; a second at least."""
        return max(1.0, self.elapsed_seconds if self.active_seconds is None else self.active_seconds)

    @property
    def hourly_cents(self) -> float:
        """What an hour at this pace pays."""
        return self.cents * HOUR / self.seconds


@dataclass(frozen=True)
class GroupWage:
    """A HIT group's pay, in medians."""

    group_id: str
    task: str
    kind: HitKind
    assignments: int
    median_elapsed_seconds: float
    median_active_seconds: float | None
    median_seconds: float
    median_hourly_cents: int
    minimum_hourly_cents: int
    earned: tuple[Earned, ...]

    @property
    def is_low(self) -> bool:
        """Whether half of the people earn less than the task promises."""
        return self.median_hourly_cents < self.minimum_hourly_cents

    @property
    def fair_cents(self) -> int:
        """What the minimum pays for the median time, rounded up."""
        return -(-self.minimum_hourly_cents * round(self.median_seconds * 1_000) // (HOUR * 1_000))

    def top_ups(self) -> dict[int, int]:
        """Cents that each assignment lacks; nothing where the group's wage is fair."""
        if not self.is_low:
            return {}
        lacking = {one.assignment_id: self.fair_cents - one.cents for one in self.earned}
        return {assignment: cents for assignment, cents in lacking.items() if cents > 0}


def group_wages(session: Session, task: Task, *, round: Round | None = None) -> list[GroupWage]:
    """The wages of the task's HIT groups by approved work; by the round's terms where one is named."""
    minimum = spec_of(round or task).pay.minimum_hourly_cents
    pay = (
        select(LedgerEntry.assignment_id, func.sum(LedgerEntry.cents).label("cents"))
        .where(LedgerEntry.task_id == task.id, LedgerEntry.state.in_(PAID_STATES))
        .group_by(LedgerEntry.assignment_id)
        .subquery()
    )
    wanted = (
        select(Hit.group_id, Hit.kind, Assignment, pay.c.cents)
        .join(Assignment, Assignment.hit_id == Hit.id)
        .join(pay, pay.c.assignment_id == Assignment.id)
        .where(Hit.task_id == task.id, Assignment.status == AssignmentStatus.APPROVED, Hit.group_id.is_not(None))
        .order_by(Hit.group_id, Assignment.id)
    )
    if round is not None:
        wanted = wanted.where(Hit.round_id == round.id)
    groups: dict[tuple[str, HitKind], list[Earned]] = {}
    for group, kind, work, cents in session.execute(wanted):
        groups.setdefault((group, kind), []).append(_earned(work, int(cents)))
    return [_wage(group, task.name, kind, earned, minimum) for (group, kind), earned in groups.items()]


def owe_top_ups(session: Session, crowd: Crowd, wages: Sequence[GroupWage], *, now: datetime) -> int:
    """Owes what brings low groups to the minimum, once for each assignment; how many cents, without fees."""
    debts = []
    for wage in wages:
        for assignment_id, cents in wage.top_ups().items():
            work = session.get_one(Assignment, assignment_id)
            if owed_entry(session, work, EntryKind.TOP_UP) is None:
                debts.append(Debt(work, EntryKind.TOP_UP, crowd.bonus_price(cents), REASONS[EntryKind.TOP_UP]))
    owe_new(session, debts, now=now)
    return sum(debt.price.cents for debt in debts)


def _earned(work: Assignment, cents: int) -> Earned:
    handed_in = work.submitted_at or work.accepted_at
    active = None if work.active_ms is None else work.active_ms / 1_000
    return Earned(work.id, max(0.0, (handed_in - work.accepted_at).total_seconds()), active, cents)


def _wage(group: str, task: str, kind: HitKind, earned: Sequence[Earned], minimum: int) -> GroupWage:
    active = [one.active_seconds for one in earned if one.active_seconds is not None]
    return GroupWage(
        group_id=group,
        task=task,
        kind=kind,
        assignments=len(earned),
        median_elapsed_seconds=median(one.elapsed_seconds for one in earned),
        median_active_seconds=median(active) if active else None,
        median_seconds=median(one.seconds for one in earned),
        median_hourly_cents=int(median(one.hourly_cents for one in earned)),
        minimum_hourly_cents=minimum,
        earned=tuple(earned),
    )
