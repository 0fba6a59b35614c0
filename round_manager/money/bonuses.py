"""BonusSettlement: each one that a HIT has reserved is owed to the author of a verified fooling example, or free again.

What a HIT's bonuses can still come to follows from its places, its work and its examples as they are now, so this may
be run at any time, as often as anybody likes: it owes what was earned and gives back what nobody can earn any more.
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
    Task,
    UncountedVote,
    Vote,
    WorkSession,
)
from round_manager.money.budget import figures
from round_manager.money.hit_terms import shape_of
from round_manager.money.ledger import PossiblePayment, owe_bonus, release, reserve
from round_manager.specs import spec_of

FOOLED = "You fooled the model, and other people agreed with your label. Thank you!"
HANDED_IN = (AssignmentStatus.SUBMITTED, AssignmentStatus.APPROVED, AssignmentStatus.REJECTED)
CAN_STILL_EARN = (ExampleStatus.PENDING, ExampleStatus.FLAGGED)
BEING_PAID = (EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED)
HITS_AT_ONCE = 500


@dataclass(frozen=True)
class BonusSettlement:
    """What became of bonuses; `uncovered` are examples whose bonus waits, noted, until the budget covers it."""

    owed: int = 0
    released: int = 0
    uncovered: frozenset[int] = frozenset()

    def __add__(self, other: "BonusSettlement") -> "BonusSettlement":
        return BonusSettlement(self.owed + other.owed, self.released + other.released, self.uncovered | other.uncovered)


@dataclass(frozen=True)
class ExampleBonus:
    """An example as far as its bonus goes."""

    id: int
    fooled: bool
    status: ExampleStatus

    @property
    def can_still_earn(self) -> bool:
        """Whether nobody has decided it."""
        return self.fooled and self.status in CAN_STILL_EARN

    @property
    def has_earned(self) -> bool:
        """Whether it fooled the model, and other people agree with its author."""
        return self.fooled and self.status is ExampleStatus.VERIFIED


@dataclass(frozen=True)
class BonusWork:
    """Work that was handed in for a HIT; `examples` is None where it was done on a page that is not ours."""

    assignment_id: int
    is_rejected: bool
    examples: tuple[ExampleBonus, ...] | None

    def possible(self, each: int) -> int:
        """How many bonuses it can still earn."""
        if self.is_rejected:
            return 0
        return each if self.examples is None else sum(one.can_still_earn for one in self.examples)


@dataclass(frozen=True)
class HitLedger:
    """What the ledger has of some HITs: bonuses that are reserved, examples that had one, work that is being paid."""

    reserved: Counter[int]
    given: frozenset[int]
    paid: frozenset[int]


def bonuses_each(session: Session, hit: Hit) -> int:
    """How many bonuses one assignment of the HIT can lead to."""
    owner = session.get_one(Round, hit.round_id) if hit.round_id is not None else session.get_one(Task, hit.task_id)
    return shape_of(spec_of(owner), hit.kind).bonuses


def settle_bonuses(session: Session, hits: Iterable[Hit], *, now: datetime) -> BonusSettlement:
    """Owes what was earned on these HITs and releases what nobody can earn any more; once more changes nothing."""
    by_round: dict[int, list[Hit]] = {}
    for hit in hits:
        if hit.round_id is not None and hit.kind is HitKind.CREATE:
            by_round.setdefault(hit.round_id, []).append(hit)
    outcome = BonusSettlement()
    for round_id, own in sorted(by_round.items()):
        round = session.get_one(Round, round_id)
        each = shape_of(spec_of(round), HitKind.CREATE).bonuses
        if each:
            outcome += _settle(session, round, own, each, now)
    if outcome.uncovered:
        _note(session, outcome.uncovered)
    return outcome


def settle_closed(session: Session, round: Round, *, now: datetime) -> BonusSettlement:
    """The same for HITs of a closed round that have a bonus reserved still, so many at once."""
    held = select(LedgerEntry.hit_id).where(
        LedgerEntry.round_id == round.id,
        LedgerEntry.state == EntryState.RESERVED,
        LedgerEntry.kind == EntryKind.BONUS,
    )
    hits = session.scalars(select(Hit).where(Hit.id.in_(held)).order_by(Hit.id).limit(HITS_AT_ONCE))
    return settle_bonuses(session, hits, now=now)


def _settle(session: Session, round: Round, hits: Sequence[Hit], each: int, now: datetime) -> BonusSettlement:
    session.flush()
    # One at a time settles a round's bonuses. It is the budget's row that is held, as everybody does who moves money:
    # the HITs' own rows are held before it by those who collect and after it by those who pay.
    figures(session, round, lock=True)
    ids = [hit.id for hit in hits]
    books = _books(session, ids)
    works = _works(session, ids, books)
    outcome = BonusSettlement()
    for hit in hits:
        outcome += _owe_earned(session, hit, works[hit.id], books, now)
    is_open = session.scalar(select(Round.status).where(Round.id == round.id)) is not RoundStatus.CLOSED
    for hit in hits:
        places = 0 if hit.finished_at is not None else max(0, hit.max_assignments - len(works[hit.id]))
        needed = places * each + sum(work.possible(each) for work in works[hit.id]) if is_open else 0
        if books.reserved[hit.id] > needed:
            freed = release(session, [hit.id], EntryKind.BONUS, books.reserved[hit.id] - needed, now=now)
            outcome += BonusSettlement(released=freed)
    return outcome


def _owe_earned(
    session: Session, hit: Hit, works: Sequence[BonusWork], books: HitLedger, now: datetime
) -> BonusSettlement:
    outcome = BonusSettlement()
    for work in works:
        earned = [one.id for one in work.examples or () if one.has_earned and one.id not in books.given]
        for example_id in [] if work.is_rejected else earned:
            if not books.reserved[hit.id] and not _reserve_again(session, hit, now):
                outcome += BonusSettlement(uncovered=frozenset([example_id]))
                continue
            assignment, example = session.get_one(Assignment, work.assignment_id), session.get_one(Example, example_id)
            owe_bonus(session, assignment, example, FOOLED, now=now)
            books.reserved[hit.id] = max(0, books.reserved[hit.id] - 1)
            outcome += BonusSettlement(owed=1)
    return outcome


def _note(session: Session, example_ids: Collection[int]) -> None:
    """Whoever decides next looks at these again, and no round is closed before: the last vote on each is noted anew."""
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
    """A bonus that was given back, after a rejection that was then taken back; whether the budget covers it."""
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


def _books(session: Session, hit_ids: Sequence[int]) -> HitLedger:
    entry = LedgerEntry
    wanted = select(entry.hit_id, entry.kind, entry.state, entry.assignment_id, entry.example_id)
    rows = session.execute(wanted.where(entry.hit_id.in_(hit_ids))).all()
    bonuses = [row for row in rows if row.kind is EntryKind.BONUS]
    return HitLedger(
        Counter(row.hit_id for row in bonuses if row.state is EntryState.RESERVED),
        frozenset(row.example_id for row in bonuses if row.example_id is not None),
        frozenset(row.assignment_id for row in rows if row.kind is EntryKind.REWARD and row.state in BEING_PAID),
    )


def _works(session: Session, hit_ids: Sequence[int], books: HitLedger) -> dict[int, list[BonusWork]]:
    wanted = (
        select(Assignment.id, Assignment.hit_id, Assignment.status, WorkSession.id)
        .outerjoin(WorkSession, WorkSession.assignment_id == Assignment.id)
        .where(Assignment.hit_id.in_(hit_ids), Assignment.status.in_(HANDED_IN))
        .order_by(Assignment.id)
    )
    found = session.execute(wanted).all()
    written = _written(session, [page for *_, page in found if page is not None])
    works: dict[int, list[BonusWork]] = {hit_id: [] for hit_id in hit_ids}
    for assignment_id, hit_id, status, page in found:
        # A rejection that was taken back is on its way to being approved.
        is_rejected = status is AssignmentStatus.REJECTED and assignment_id not in books.paid
        examples = None if page is None else tuple(written.get(page, ()))
        works[hit_id].append(BonusWork(assignment_id, is_rejected, examples))
    return works


def _written(session: Session, pages: Sequence[int]) -> dict[int, list[ExampleBonus]]:
    wanted = select(Example.session_id, Example.id, Example.fooled, Example.status)
    mine = wanted.where(Example.session_id.in_(pages), Example.session_id.is_not(None)).order_by(Example.id)
    found: dict[int, list[ExampleBonus]] = {}
    for page, example_id, fooled, status in session.execute(mine):
        found.setdefault(page or 0, []).append(ExampleBonus(example_id, fooled, status))
    return found
