"""Fair pay: what an hour of work paid, and the top-up that brings it to the task's minimum.

An assignment's time is the time that it was credited with (`credited_time`), which no other assignment of the worker
has. Two HITs side by side share their time by chance, so a worker counts with the mean of their assignments in a group.

One worker's long break must not decide, and neither must one worker with many assignments: a group's wage is the median
of its workers, and its top-up follows from their median time. For every assignment, a worker gets at least what the
minimum pays for that time, or for their own if it is shorter. At least half of the workers then reach the minimum, and
so does the median.

The top-ups of one worker in one round are capped. If the top-ups of a round exceed a limit, they wait for the owner.
Both are settings of the task.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from statistics import median, median_high

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session

from crowd.port import Crowd
from round_manager import audit
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
    WorkSession,
    spec_of,
)
from round_manager.money.ledger import Debt, owe_new, owed_entry
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task

HOUR = 3_600
PAID_STATES = (EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED)
ROWS_AT_A_TIME = 1_000
NO_ROUND = 0
# Nothing can be done in less; and nothing is divided by zero.
SHORTEST_SECONDS = 1.0
BELOW_LIMIT = "top-ups to the minimum hourly pay, below the limit for the owner's approval"


@dataclass(frozen=True)
class PaidAssignment:
    """An approved assignment of a HIT group, with its time and the cents that it pays."""

    group_id: str
    kind: HitKind
    assignment_id: int
    worker_id: int
    round_id: int | None
    seconds: float
    cents: int

    @property
    def hourly_cents(self) -> float:
        """The pay for an hour at this pace."""
        return self.cents * HOUR / max(SHORTEST_SECONDS, self.seconds)


@dataclass(frozen=True)
class TopUp:
    """What brings one assignment to the minimum."""

    assignment_id: int
    worker_id: int
    round_id: int | None
    cents: int


@dataclass(frozen=True)
class GroupWage:
    """The median pay of a HIT group's workers, in one round by number or in all rounds.

    If the pay is too low, `lacking` has what assignments lack. Of an even number of workers, `median_seconds` is the
    mean of the middle two, and `fair_seconds` the longer of them: both have to reach the minimum.
    """

    group_id: str
    task: str
    kind: HitKind
    assignments: int
    median_seconds: float
    fair_seconds: float
    median_hourly_cents: int
    minimum_hourly_cents: int
    round: int | None = None
    lacking: tuple[TopUp, ...] = ()

    @property
    def is_low(self) -> bool:
        """Whether the median pay is below the task's minimum."""
        return self.median_hourly_cents < self.minimum_hourly_cents

    def fair_cents(self, seconds: float) -> int:
        """Return what the minimum pays for a time, or for the median time if that is shorter, rounded up."""
        ms = round(min(seconds, self.fair_seconds) * 1_000)
        return -(-self.minimum_hourly_cents * ms // (HOUR * 1_000))


@dataclass(frozen=True)
class DueTopUps:
    """The top-ups that a round's workers lack; above `limit_cents`, all top-ups of the round considered, they wait."""

    cents: int = 0
    owed_before_cents: int = 0
    limit_cents: int = 0

    @property
    def need_approval(self) -> bool:
        """Whether the owner has to approve them."""
        return self.cents > 0 and self.cents + self.owed_before_cents > self.limit_cents


def group_wages(session: Session, task: Task, *, round: Round | None = None) -> list[GroupWage]:
    """Return the pay of the task's HIT groups, from approved work; with a round, of that round and by its terms."""
    which = () if round is None else (Hit.round_id == round.id,)
    return _group_wages(session, task, round, *which)


def round_wages(session: Session, task: Task) -> list[GroupWage]:
    """Return the pay of the HIT groups of each round by its terms, and of HITs without a round by the task's.

    Rounds with the same terms share their groups on the marketplace, but each round is paid for itself.
    """
    found = [wage for round in list_rounds(session, task) for wage in group_wages(session, task, round=round)]
    return [*found, *_group_wages(session, task, None, Hit.round_id.is_(None))]


def _group_wages(session: Session, task: Task, round: Round | None, *which: ColumnElement[bool]) -> list[GroupWage]:
    minimum, number = spec_of(round or task).pay.minimum_hourly_cents, round.number if round else None
    groups = groupby(earned_work(session, task, *which), lambda one: (one.group_id, one.kind))
    wages = [_wage(group, task.name, kind, earned, minimum) for (group, kind), earned in groups]
    return [replace(wage, round=number) for wage in wages]


def earned_work(session: Session, task: Task, *which: ColumnElement[bool]) -> Iterator[PaidAssignment]:
    """Yield the approved work of a task, or that of some HITs, group by group, without loading all of it."""
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
            Hit.round_id,
            Assignment.accepted_at,
            Assignment.submitted_at,
            Assignment.active_ms,
            pay.c.cents,
        )
        .join(Assignment, Assignment.hit_id == Hit.id)
        .join(pay, pay.c.assignment_id == Assignment.id)
        .where(Hit.task_id == task.id, Assignment.status == AssignmentStatus.APPROVED, Hit.group_id.is_not(None))
        # What is paid without work says nothing about the pay of work.
        .where(~exists().where(WorkSession.assignment_id == Assignment.id, WorkSession.empty_at.is_not(None)), *which)
        .order_by(Hit.group_id, Hit.kind, Assignment.id)
        .execution_options(yield_per=ROWS_AT_A_TIME)
    )
    for group, kind, number, worker, round_id, accepted_at, submitted_at, active_ms, cents in session.execute(wanted):
        elapsed = ((submitted_at or accepted_at) - accepted_at).total_seconds()
        seconds = elapsed if active_ms is None else active_ms / 1_000
        yield PaidAssignment(group, kind, number, worker, round_id, seconds, int(cents))


def owe_top_ups(
    session: Session, crowd: Crowd, wages: Sequence[GroupWage], *, actor: str, reason: str, now: datetime
) -> int:
    """Owe top-ups to low-paid groups, once for each assignment; return the cents, without fees."""
    debts: list[Debt] = []
    owed: dict[Round | Task, list[int]] = defaultdict(list)
    for top_up in (one for group in new_top_ups(session, wages) for one in group):
        work = session.get_one(Assignment, top_up.assignment_id)
        if owed_entry(session, work, EntryKind.TOP_UP) is None:
            debts.append(Debt(work, EntryKind.TOP_UP, crowd.bonus_price(top_up.cents), REASONS[EntryKind.TOP_UP]))
            hit = session.get_one(Hit, work.hit_id)
            round = session.get_one(Round, hit.round_id) if hit.round_id is not None else None
            owed[round or session.get_one(Task, hit.task_id)].append(top_up.cents)
    owe_new(session, debts, now=now)
    for of, cents in owed.items():
        after = {"top_ups": len(cents), "cents": sum(cents)}
        audit.note(session, "owed top-ups", of, actor=actor, reason=reason, now=now, of=of, after=after)
    return sum(debt.price.cents for debt in debts)


def new_top_ups(session: Session, wages: Sequence[GroupWage]) -> list[list[TopUp]]:
    """Return the top-ups of each group that would be owed now: one for an assignment, within each worker's cap."""
    found: list[list[TopUp]] = [[] for _ in wages]
    if not any(wage.lacking for wage in wages):
        return found
    entry = LedgerEntry
    owed = select(entry.assignment_id, entry.worker_id, entry.round_id, entry.cents).where(
        entry.kind == EntryKind.TOP_UP, entry.state != EntryState.REFUSED
    )
    had: set[int | None] = set()
    left = _Caps(session)
    for assignment_id, worker_id, round_id, cents in session.execute(owed):
        had.add(assignment_id)
        left.received[worker_id, round_id] += cents
    for wage, new in zip(wages, found, strict=True):
        for one in (one for one in wage.lacking if one.assignment_id not in had):
            cents = min(one.cents, left.of(one, wage.task))
            if cents > 0:
                new.append(replace(one, cents=cents))
                left.received[one.worker_id, one.round_id] += cents
    return found


class _Caps:
    """What workers may still get in top-ups, by the terms of each round, or of the task for HITs without a round."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._caps: dict[int | str, int] = {}
        self.received: dict[tuple[int | None, int | None], int] = defaultdict(int)

    def of(self, top_up: TopUp, task: str) -> int:
        """Return what the worker of a top-up may still get in its round."""
        place = task if top_up.round_id is None else top_up.round_id
        if place not in self._caps:
            owner = find_task(self._session, task) if isinstance(place, str) else self._session.get_one(Round, place)
            self._caps[place] = spec_of(owner).top_up_cap_cents
        return self._caps[place] - self.received[top_up.worker_id, top_up.round_id]


def due_top_ups(session: Session, round: Round) -> DueTopUps:
    """Return what the round's workers lack to the minimum and are not owed yet, without fees."""
    spec = spec_of(round)
    if not spec.pay.minimum_hourly_cents:
        return DueTopUps()
    wages = group_wages(session, session.get_one(Task, round.task_id), round=round)
    cents = sum(one.cents for group in new_top_ups(session, wages) for one in group)
    of_round = (LedgerEntry.round_id == round.id, LedgerEntry.kind == EntryKind.TOP_UP)
    before = select(func.sum(LedgerEntry.cents)).where(*of_round, LedgerEntry.state.in_(PAID_STATES))
    return DueTopUps(cents, int(session.scalar(before) or 0), spec.top_up_review_cents)


def owe_fair_pay(session: Session, crowd: Crowd, round: Round, *, actor: str, now: datetime) -> int:
    """Owe the top-ups of a round whose work is decided; return the cents, without fees.

    Not before: a median takes all workers into account, and each assignment gets one top-up at most. Raises
    BudgetError, and changes nothing, if the budget does not cover them.
    """
    wages = group_wages(session, session.get_one(Task, round.task_id), round=round)
    return owe_top_ups(session, crowd, wages, actor=actor, reason=BELOW_LIMIT, now=now)


def _wage(group: str, task: str, kind: HitKind, earned: Iterable[PaidAssignment], minimum: int) -> GroupWage:
    # A median needs all values, and a round has many: arrays of numbers instead of objects.
    ids, workers, rounds, cents = array("q"), array("q"), array("q"), array("q")
    totals: dict[int, _WorkerTotal] = defaultdict(_WorkerTotal)
    for one in earned:
        ids.append(one.assignment_id)
        workers.append(one.worker_id)
        rounds.append(one.round_id or NO_ROUND)
        cents.append(one.cents)
        totals[one.worker_id].add(one)
    wage = GroupWage(
        group_id=group,
        task=task,
        kind=kind,
        assignments=len(ids),
        median_seconds=median(one.mean_seconds for one in totals.values()),
        fair_seconds=median_high(one.mean_seconds for one in totals.values()),
        median_hourly_cents=int(median(one.hourly_cents for one in totals.values())),
        minimum_hourly_cents=minimum,
    )
    if not wage.is_low:
        return wage
    fair = {worker: wage.fair_cents(total.mean_seconds) for worker, total in totals.items()}
    return replace(
        wage,
        lacking=tuple(
            TopUp(number, worker, None if round_id == NO_ROUND else round_id, fair[worker] - had)
            for number, worker, round_id, had in zip(ids, workers, rounds, cents, strict=True)
            if had < fair[worker]
        ),
    )


@dataclass
class _WorkerTotal:
    assignments: int = 0
    seconds: float = 0
    cents: int = 0

    def add(self, one: PaidAssignment) -> None:
        self.assignments += 1
        self.seconds += one.seconds
        self.cents += one.cents

    @property
    def mean_seconds(self) -> float:
        """The mean time of the worker's assignments."""
        return max(SHORTEST_SECONDS, self.seconds / self.assignments)

    @property
    def hourly_cents(self) -> float:
        """The pay for an hour at this pace."""
        return self.cents / self.assignments * HOUR / self.mean_seconds
