"""Bonuses: a reserved bonus is owed to the author of a verified fooling example with a new text, or released.

How many bonuses a HIT can still lead to follows from its places, its work and its examples. So settling can be
repeated at any time: it owes the bonuses that were earned and releases those that can no longer be earned.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from crowd.profile import Price
from round_manager.errors import BudgetError
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    LedgerEntry,
    Round,
    RoundStatus,
    UncountedVote,
    Vote,
    WorkSession,
    spec_of,
)
from round_manager.money.budget import figures
from round_manager.money.ledger import PossiblePayment, owe_bonus, release, reserve
from templates import TaskSpec

FOOLED = "You fooled the model, and other people agreed with your label. Thank you!"
SUBMITTED = (AssignmentStatus.SUBMITTED, AssignmentStatus.APPROVED, AssignmentStatus.REJECTED)
CAN_STILL_EARN = (ExampleStatus.PENDING, ExampleStatus.FLAGGED)
BEING_PAID = (EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED)
HITS_AT_ONCE = 500


@dataclass(frozen=True)
class BonusSettlement:
    """What settling did; `uncovered` are examples whose bonus waits until the budget covers it."""

    owed: int = 0
    released: int = 0
    uncovered: frozenset[int] = frozenset()

    def __add__(self, other: "BonusSettlement") -> "BonusSettlement":
        return BonusSettlement(self.owed + other.owed, self.released + other.released, self.uncovered | other.uncovered)


@dataclass(frozen=True)
class ExampleBonus:
    """The facts of an example that decide about its bonus."""

    id: int
    fooled: bool
    is_new: bool
    status: ExampleStatus

    @property
    def can_still_earn(self) -> bool:
        """Whether it is a new text that fooled the model and is not decided yet."""
        return self.fooled and self.is_new and self.status in CAN_STILL_EARN

    @property
    def has_earned(self) -> bool:
        """Whether it is a new text that fooled the model, and validators agree with its author."""
        return self.fooled and self.is_new and self.status is ExampleStatus.VERIFIED


@dataclass(frozen=True)
class BonusWork:
    """Submitted work of a HIT; `examples` is None if its page is not ours."""

    assignment_id: int
    is_rejected: bool
    examples: tuple[ExampleBonus, ...] | None

    def possible(self, each: int) -> int:
        """Return how many bonuses it can still earn."""
        if self.is_rejected:
            return 0
        return each if self.examples is None else sum(one.can_still_earn for one in self.examples)


@dataclass(frozen=True)
class HitLedger:
    """The ledger of some HITs: reserved bonuses, examples that have one, and work that is being paid."""

    reserved: Counter[int]
    given: frozenset[int]
    paid: frozenset[int]


def most_bonuses(spec: TaskSpec, kind: HitKind) -> int:
    """Return how many bonuses one assignment of such a HIT can lead to."""
    return spec.work.examples_per_hit if kind is HitKind.CREATE and spec.pay.fooled_bonus_cents else 0


def settle_bonuses(session: Session, hits: Iterable[Hit], *, now: datetime) -> BonusSettlement:
    """Owe the bonuses that were earned on these HITs and release the impossible ones; repeating changes nothing."""
    by_round: dict[int, list[Hit]] = {}
    for hit in hits:
        if hit.round_id is not None and hit.kind is HitKind.CREATE:
            by_round.setdefault(hit.round_id, []).append(hit)
    outcome = BonusSettlement()
    for round_id, own in sorted(by_round.items()):
        round = session.get_one(Round, round_id)
        each = most_bonuses(spec_of(round), HitKind.CREATE)
        if each:
            outcome += _settle(session, round, own, each, now)
    if outcome.uncovered:
        _mark_uncounted(session, outcome.uncovered)
    return outcome


def settle_closed(session: Session, round: Round, *, now: datetime) -> BonusSettlement:
    """Settle a batch of a closed round's HITs that still have a reserved bonus."""
    held = select(LedgerEntry.hit_id).where(
        LedgerEntry.round_id == round.id, LedgerEntry.state == EntryState.RESERVED, LedgerEntry.kind == EntryKind.BONUS
    )
    hits = session.scalars(select(Hit).where(Hit.id.in_(held)).order_by(Hit.id).limit(HITS_AT_ONCE))
    return settle_bonuses(session, hits, now=now)


def _settle(session: Session, round: Round, hits: Sequence[Hit], each: int, now: datetime) -> BonusSettlement:
    session.flush()
    # One process at a time settles a round's bonuses. It locks the budget's row, as everything that moves money does:
    # collection locks the HITs' rows before it, and payment after it.
    figures(session, round, lock=True)
    ids = [hit.id for hit in hits]
    ledger = _hit_ledger(session, ids)
    works = _works(session, ids, ledger)
    outcome = BonusSettlement()
    for hit in hits:
        outcome += _owe_earned(session, hit, works[hit.id], ledger, now)
    is_open = session.scalar(select(Round.status).where(Round.id == round.id)) is not RoundStatus.CLOSED
    for hit in hits:
        places = 0 if hit.finished_at is not None else max(0, hit.max_assignments - len(works[hit.id]))
        needed = places * each + sum(work.possible(each) for work in works[hit.id]) if is_open else 0
        if ledger.reserved[hit.id] > needed:
            freed = release(session, [hit.id], EntryKind.BONUS, ledger.reserved[hit.id] - needed, now=now)
            outcome += BonusSettlement(released=freed)
    return outcome


def _owe_earned(
    session: Session, hit: Hit, works: Sequence[BonusWork], ledger: HitLedger, now: datetime
) -> BonusSettlement:
    outcome = BonusSettlement()
    for work in works:
        earned = [one.id for one in work.examples or () if one.has_earned and one.id not in ledger.given]
        for example_id in [] if work.is_rejected else earned:
            if not ledger.reserved[hit.id] and not _reserve_again(session, hit, now):
                outcome += BonusSettlement(uncovered=frozenset([example_id]))
                continue
            assignment, example = session.get_one(Assignment, work.assignment_id), session.get_one(Example, example_id)
            owe_bonus(session, assignment, example, FOOLED, now=now)
            ledger.reserved[hit.id] = max(0, ledger.reserved[hit.id] - 1)
            outcome += BonusSettlement(owed=1)
    return outcome


def _mark_uncounted(session: Session, example_ids: Collection[int]) -> None:
    """Mark the last vote of each example as uncounted, so that it is settled again before the round closes."""
    noted = select(UncountedVote.example_id).where(
        UncountedVote.round_id == Example.round_id, UncountedVote.example_id == Example.id
    )
    last = (
        select(func.max(Vote.id), Example.round_id, Example.id)
        .join(Vote, Vote.example_id == Example.id)
        .where(Example.id.in_(example_ids), ~noted.exists())
        .group_by(Example.round_id, Example.id)
    )
    session.execute(insert(UncountedVote).from_select(["vote_id", "round_id", "example_id"], last))


def _reserve_again(session: Session, hit: Hit, now: datetime) -> bool:
    """Reserve a bonus again that an overridden rejection had released; return whether the budget covers it."""
    known = select(LedgerEntry.cents, LedgerEntry.fee_cents).where(LedgerEntry.kind == EntryKind.BONUS).limit(1)
    found = session.execute(known.where(LedgerEntry.hit_id == hit.id)).first()
    found = found or session.execute(known.where(LedgerEntry.round_id == hit.round_id)).first()
    if found is None:
        return False
    try:
        reserve(session, [(hit, PossiblePayment(EntryKind.BONUS, Price(found.cents, found.fee_cents)))], now=now)
    except BudgetError:
        return False
    return True


def _hit_ledger(session: Session, hit_ids: Sequence[int]) -> HitLedger:
    entry = LedgerEntry
    wanted = select(entry.hit_id, entry.kind, entry.state, entry.assignment_id, entry.example_id)
    rows = session.execute(wanted.where(entry.hit_id.in_(hit_ids))).all()
    bonuses = [row for row in rows if row.kind is EntryKind.BONUS]
    return HitLedger(
        Counter(row.hit_id for row in bonuses if row.state is EntryState.RESERVED),
        frozenset(row.example_id for row in bonuses if row.example_id is not None),
        frozenset(row.assignment_id for row in rows if row.kind is EntryKind.REWARD and row.state in BEING_PAID),
    )


def _works(session: Session, hit_ids: Sequence[int], ledger: HitLedger) -> dict[int, list[BonusWork]]:
    wanted = (
        select(Assignment.id, Assignment.hit_id, Assignment.status, WorkSession.id)
        .outerjoin(WorkSession, WorkSession.assignment_id == Assignment.id)
        .where(Assignment.hit_id.in_(hit_ids), Assignment.status.in_(SUBMITTED))
        .order_by(Assignment.id)
    )
    found = session.execute(wanted).all()
    examples_of = _examples(session, [page for *_, page in found if page is not None])
    works: dict[int, list[BonusWork]] = {hit_id: [] for hit_id in hit_ids}
    for assignment_id, hit_id, status, page in found:
        # An overridden rejection is being approved.
        is_rejected = status is AssignmentStatus.REJECTED and assignment_id not in ledger.paid
        examples = None if page is None else tuple(examples_of.get(page, ()))
        works[hit_id].append(BonusWork(assignment_id, is_rejected, examples))
    return works


def _examples(session: Session, pages: Sequence[int]) -> dict[int, list[ExampleBonus]]:
    wanted = select(Example.session_id, Example.id, Example.fooled, Example.duplicate.is_(None), Example.status)
    mine = wanted.where(Example.session_id.in_(pages), Example.session_id.is_not(None)).order_by(Example.id)
    found: dict[int, list[ExampleBonus]] = {}
    for page, example_id, fooled, is_new, status in session.execute(mine):
        found.setdefault(page or 0, []).append(ExampleBonus(example_id, fooled, bool(is_new), status))
    return found
