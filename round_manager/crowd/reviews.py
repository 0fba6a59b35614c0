"""Reviews: approves and rejects submitted work, and gives bonuses.

Work is approved unless a person decides otherwise. Bad work is approved too, but not used, and its worker loses the
qualification. Rejecting work takes a person and a reason that the worker reads.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import exists, select, true
from sqlalchemy.orm import Session

from common.clock import Clock
from common.errors import Hint
from common.text import dollars
from crowd.port import Crowd
from round_manager import audit
from round_manager.crowd.confirmation import is_page_finished, mark_rejected
from round_manager.database.store import Store
from round_manager.errors import (
    AssignmentNotFound,
    AssignmentStateError,
    BonusAlreadyGiven,
    BudgetError,
    CrowdWorkError,
    ReasonRequired,
)
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Hit,
    LedgerEntry,
    Round,
    Task,
    Worker,
    spec_of,
)
from round_manager.money.bonuses import most_bonuses, settle_bonuses
from round_manager.money.budget import figures
from round_manager.money.ledger import Debt, PossiblePayment, owe_new, owe_rewards, owed_entry, reserve, rewards_of

LONGEST_REASON = 1_024
# Enough to find what a bonus is for, without reading the whole history.
MOST_DECIDED = 1_000


@dataclass(frozen=True)
class UndecidedWork:
    """Submitted work without a decision; `page_unfinished` if the HIT's page was not completed."""

    assignment_id: str
    worker_id: str
    hit_id: str
    kind: str
    reward_cents: int
    submitted_at: datetime
    auto_approve_at: datetime | None
    page_unfinished: bool


@dataclass(frozen=True)
class DecidedWork:
    """Work that was approved or rejected."""

    assignment_id: str
    worker_id: str
    hit_id: str
    kind: str
    status: str
    decided_at: datetime


def undecided(
    session: Session, marketplace: str, task_id: int | None = None, *, our_pages: bool = False
) -> list[UndecidedWork]:
    """Return submitted work that is neither decided nor being paid, the oldest first.

    `page_unfinished` is only known if HITs show `our_pages`.
    """
    # By the HIT, which has few entries: the ledger has no index on assignments alone.
    being_paid = exists().where(
        LedgerEntry.hit_id == Assignment.hit_id,
        LedgerEntry.assignment_id == Assignment.id,
        LedgerEntry.kind == EntryKind.REWARD,
        LedgerEntry.state.in_((EntryState.OWED, EntryState.SENT)),
    )
    wanted = (
        select(Assignment, Worker.external_id, Hit, is_page_finished() if our_pages else true())
        .join(Hit, Hit.id == Assignment.hit_id)
        .join(Worker, Worker.id == Assignment.worker_id)
        # A HIT with undecided work is not finished.
        .where(Hit.marketplace == marketplace, Hit.finished_at.is_(None))
        .where(Assignment.status == AssignmentStatus.SUBMITTED, ~being_paid)
        .order_by(Assignment.submitted_at, Assignment.id)
    )
    if task_id is not None:
        # The addition keeps databases from using other indexes; the index on unfinished HITs is much shorter.
        wanted = wanted.where(Hit.task_id + 0 == task_id)
    return [
        UndecidedWork(
            work.external_id,
            worker,
            hit.external_id or "",
            hit.kind.value,
            hit.reward_cents,
            work.submitted_at or work.accepted_at,
            work.auto_approve_at,
            not finished,
        )
        for work, worker, hit, finished in session.execute(wanted)
    ]


def decided(session: Session, marketplace: str, task_id: int | None = None) -> list[DecidedWork]:
    """Return the latest decided work, the newest first, up to a limit."""
    wanted = (
        select(Assignment, Worker.external_id, Hit)
        .join(Hit, Hit.id == Assignment.hit_id)
        .join(Worker, Worker.id == Assignment.worker_id)
        .where(Assignment.marketplace == marketplace, Assignment.decided_at.is_not(None))
        .order_by(Assignment.decided_at.desc(), Assignment.id.desc())
        .limit(MOST_DECIDED)
    )
    if task_id is not None:
        wanted = wanted.where(Hit.task_id == task_id)
    return [
        DecidedWork(work.external_id, worker, hit.external_id or "", hit.kind.value, work.status.value, decided_at)
        for work, worker, hit in session.execute(wanted)
        if (decided_at := work.decided_at)
    ]


def find_assignment(session: Session, marketplace: str, external_id: str) -> Assignment:
    """Return the assignment with the marketplace's id, or raise AssignmentNotFound."""
    wanted = select(Assignment).where(Assignment.marketplace == marketplace, Assignment.external_id == external_id)
    found = session.scalar(wanted)
    if found is None:
        raise AssignmentNotFound(f"no assignment {external_id} was collected", hint=Hint("show_crowd"))
    return found


def approve(session: Session, assignments: Sequence[Assignment], *, actor: str, reason: str, now: datetime) -> int:
    """Owe the rewards of submitted work, and return how many were not owed before."""
    for work in assignments:
        check_approvable(work)
    owed = set(session.scalars(select(LedgerEntry.assignment_id).where(*rewards_of(assignments))))
    new = [work for work in assignments if work.status is AssignmentStatus.SUBMITTED and work.id not in owed]
    new = _owe_covered(session, new, now)
    hits = {hit.id: hit for hit in session.scalars(select(Hit).where(Hit.id.in_({work.hit_id for work in new})))}
    for work in new:
        audit.note(session, "approved", work, actor=actor, reason=reason, now=now, of=hits[work.hit_id])
    return len(new)


def check_approvable(work: Assignment) -> None:
    """Raise AssignmentStateError if the work was rejected."""
    if work.status is AssignmentStatus.REJECTED:
        hint = Hint("override_rejection", assignment=work.external_id)
        raise AssignmentStateError(f"{work.external_id} was rejected; override the rejection to pay it", hint=hint)


def _owe_covered(session: Session, works: Sequence[Assignment], now: datetime) -> list[Assignment]:
    """Owe the rewards and return the covered work; unplanned work that the budget does not cover is left out."""
    try:
        with session.begin_nested():
            owe_rewards(session, works, now=now)
        return list(works)
    except BudgetError:
        if len(works) == 1:
            raise
    # One by one: work without a reservation must not delay the pay of the others.
    covered: list[Assignment] = []
    for work in works:
        with suppress(BudgetError):
            covered += _owe_covered(session, [work], now)
    return covered


def give_bonus(
    session: Session, crowd: Crowd, work: Assignment, cents: int, reason: str, *, actor: str, now: datetime
) -> LedgerEntry:
    """Owe a bonus that a person gives, with a reason for the worker; the budget must cover it."""
    text = reason.strip()
    if not text:
        raise ReasonRequired("a bonus needs a reason for the worker")
    if cents < 1:
        raise CrowdWorkError("a bonus must be at least one cent")
    debt = Debt(work, EntryKind.EXTRA, crowd.bonus_price(cents), text[:LONGEST_REASON])
    (entry,) = owe_new(session, [debt], now=now)
    audit.note(session, "gave a bonus", entry, actor=actor, reason=text, now=now, of=entry, after={"cents": cents})
    return entry


def give_bonus_once(
    session: Session, crowd: Crowd, work: Assignment, cents: int, reason: str, *, actor: str, now: datetime
) -> LedgerEntry:
    """Owe a bonus unless the same one was given before; of two concurrent calls, one succeeds."""
    _lock_budget(session, work)
    before = _same_bonus(session, work, cents, reason)
    if before is not None:
        since = f"{before.owed_at or before.reserved_at:%Y-%m-%d %H:%M} UTC"
        problem = f"{work.external_id} already has this bonus: {dollars(before.cents)}, {before.state.value}, {since}"
        raise BonusAlreadyGiven(problem, hint=Hint("pay_workers"))
    return give_bonus(session, crowd, work, cents, reason, actor=actor, now=now)


def _lock_budget(session: Session, work: Assignment) -> None:
    """Lock the budget, so that no other process gives a bonus for the same work."""
    # The budget's row and not the assignment's: every process that moves money locks it anyway. Collection locks the
    # assignment before it and payment after it, so that locking both could deadlock.
    hit = session.get_one(Hit, work.hit_id)
    owner = session.get_one(Task, hit.task_id) if hit.round_id is None else session.get_one(Round, hit.round_id)
    figures(session, owner, lock=True)


def _same_bonus(session: Session, work: Assignment, cents: int, reason: str) -> LedgerEntry | None:
    """Return an earlier bonus of the same amount and reason for the same work."""
    wanted = select(LedgerEntry).where(
        LedgerEntry.assignment_id == work.id,
        LedgerEntry.kind == EntryKind.EXTRA,
        LedgerEntry.cents == cents,
        LedgerEntry.reason == reason.strip()[:LONGEST_REASON],
        LedgerEntry.state != EntryState.REFUSED,
    )
    return session.scalar(wanted.order_by(LedgerEntry.id.desc()).limit(1))


class Rejections:
    """Rejections by a person, and their overrides; nothing is rejected automatically."""

    def __init__(self, store: Store, crowd: Crowd, clock: Clock) -> None:
        self._store = store
        self._crowd = crowd
        self._clock = clock

    def reject(self, external_id: str, reason: str, *, actor: str) -> None:
        """Reject work on the marketplace and then here; repeating the call changes nothing."""
        text = reason.strip()
        if len(text) < self._crowd.profile.limits.rejection_reason_minimum:
            raise ReasonRequired("a rejection needs a reason for the worker")
        with self._store.read() as session:
            work = find_assignment(session, self._crowd.name, external_id)
            if work.status is AssignmentStatus.REJECTED:
                return
            if work.status is not AssignmentStatus.SUBMITTED or owed_entry(session, work, EntryKind.REWARD):
                raise AssignmentStateError(f"{external_id} is approved and being paid; it cannot be rejected")
        # The marketplace first: if the process stops in between, the next collection finds the rejection.
        self._crowd.reject(external_id, text[:LONGEST_REASON])
        now = self._clock.now()
        with self._store.write() as session:
            work = find_assignment(session, self._crowd.name, external_id)
            if work.status is AssignmentStatus.SUBMITTED:
                mark_rejected(session, work, text, actor, now, now=now)
                audit.note(
                    session, "rejected", work, actor=actor, reason=text, now=now, of=session.get_one(Hit, work.hit_id)
                )

    def override(self, external_id: str, *, actor: str, reason: str) -> None:
        """Owe the reward of rejected work; the next payment overrides the rejection on the marketplace."""
        now = self._clock.now()
        with self._store.write() as session:
            work = find_assignment(session, self._crowd.name, external_id)
            if work.status is not AssignmentStatus.REJECTED:
                raise AssignmentStateError(f"{external_id} is {work.status.value}; only a rejection can be overridden")
            owe_rewards(session, [work], now=now)
            hit = session.get_one(Hit, work.hit_id)
            self._reserve_bonuses(session, hit, now)
            settle_bonuses(session, [hit], now=now)
            audit.note(session, "overrode a rejection", work, actor=actor, reason=reason, now=now, of=hit)

    def _reserve_bonuses(self, session: Session, hit: Hit, now: datetime) -> None:
        """Reserve the possible bonuses again, which the rejection released."""
        owner = session.get_one(Round, hit.round_id) if hit.round_id is not None else session.get_one(Task, hit.task_id)
        spec = spec_of(owner)
        bonus = PossiblePayment(EntryKind.BONUS, self._crowd.bonus_price(spec.pay.fooled_bonus_cents))
        reserve(session, [(hit, bonus)] * most_bonuses(spec, hit.kind), now=now)
