"""The final check: what the marketplace did, against what our database says, payment by payment."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.marketplace import money
from mturk.marketplace.tables.work import Assignment as MarketAssignment
from mturk.marketplace.tables.work import AssignmentStatus as MarketStatus
from mturk.marketplace.tables.work import Bonus
from mturk.marketplace.tables.work import Hit as MarketHit
from round_manager.crowd.fair_pay import due_top_ups
from round_manager.database.store import Store
from round_manager.models import (
    Assignment,
    EntryKind,
    EntryState,
    Example,
    ExampleStatus,
    Hit,
    HitStatus,
    LedgerEntry,
    Round,
    Task,
    Worker,
)
from round_manager.money.budget import drift, statement
from tests.bench.crashing.place import Place

UNSETTLED = (EntryState.RESERVED, EntryState.OWED, EntryState.SENT, EntryState.REFUSED)


@dataclass(frozen=True)
class Payment:
    """A confirmed entry of the ledger, or a payment of the marketplace; a reward's key is its assignment."""

    key: str
    assignment: str
    worker: str
    cents: int
    fee_cents: int


@dataclass
class Books:
    """What was found; `lost` and `doubled` name everything that is missing or there twice."""

    hits: int = 0
    approvals: int = 0
    bonuses: int = 0
    top_ups: int = 0
    spent_cents: int = 0
    difference_cents: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


def check_books(store: Store, place: Place, *, written: int, submitted: int) -> Books:
    """Compare the marketplace with the database; workers wrote and submitted this many HITs."""
    books = Books()
    with place.market.read() as market, store.read() as session:
        _check_hits(market, session, books)
        _check_rewards(market, session, books, submitted)
        _check_bonuses(market, session, books)
        _check_debts(session, books, written)
        _check_sums(market, session, books)
    books.spent_cents = place.spent_cents()
    books.difference_cents += abs(books.spent_cents - _confirmed_cents(store))
    return books


def _check_hits(market: Session, session: Session, books: Books) -> None:
    there = {hit.id: hit.annotation for hit in market.scalars(select(MarketHit))}
    ours = {hit.key: hit for hit in session.scalars(select(Hit))}
    books.hits = len(there)
    books.doubled += _repeated("HIT", there.values())
    for hit_id, key in there.items():
        if key not in ours or ours[key].external_id != hit_id:
            books.lost.append(f"HIT {hit_id} is on the marketplace only")
    for hit in ours.values():
        if hit.status in (HitStatus.PLANNED, HitStatus.HELD) or (hit.external_id and hit.external_id not in there):
            books.lost.append(f"HIT {hit.key} is {hit.status} here only")


def _check_rewards(market: Session, session: Session, books: Books, submitted: int) -> None:
    """Every submitted assignment is approved there and paid here, at the same price, once."""
    done = market.execute(
        select(MarketAssignment, MarketHit)
        .join(MarketHit, MarketHit.id == MarketAssignment.hit_id)
        .where(MarketAssignment.submitted_at.is_not(None))
    ).all()
    approved = [
        Payment(work.id, work.id, str(work.worker_id), hit.reward_cents, hit.fee_cents)
        for work, hit in done
        if work.status is MarketStatus.APPROVED
    ]
    paid = [
        Payment(one.assignment, one.assignment, one.worker, one.cents, one.fee_cents)
        for one in _confirmed(session, (EntryKind.REWARD,))
    ]
    books.approvals = len(approved)
    if len(approved) != submitted:
        books.lost.append(f"{submitted} HITs were submitted, and {len(approved)} are approved")
    _compare("reward", approved, paid, books)


def _check_bonuses(market: Session, session: Session, books: Books) -> None:
    """Every bonus and top-up here is one there, and no assignment has two of a kind."""
    rows = market.scalars(select(Bonus)).all()
    there = [
        Payment(
            row.reason.rpartition("[ref ")[2].rstrip("]"), row.assignment_id, row.worker_id, row.cents, row.fee_cents
        )
        for row in rows
    ]
    bonuses, top_ups = (_confirmed(session, (kind,)) for kind in (EntryKind.BONUS, EntryKind.TOP_UP))
    books.bonuses, books.top_ups = len(bonuses), len(top_ups)
    _compare("bonus", there, [*bonuses, *top_ups], books)
    # By the text that the worker reads, whatever the keys are: a page has one example.
    books.doubled += _repeated("bonus", [f"{row.reason.partition('[ref ')[0]}{row.assignment_id}" for row in rows])


def _check_debts(session: Session, books: Books, written: int) -> None:
    """Every text that earned a bonus has one, every worker has the minimum, and nothing is left unsettled."""
    counted = select(func.count()).select_from(Example).where(Example.status != ExampleStatus.UNCONFIRMED)
    if (session.scalar(counted) or 0) != written:
        books.lost.append(f"{written} examples were written, and {session.scalar(counted)} count")
    paid = select(LedgerEntry.example_id).where(
        LedgerEntry.state == EntryState.CONFIRMED, LedgerEntry.example_id.is_not(None)
    )
    earned = select(Example.id).where(
        Example.fooled, Example.status == ExampleStatus.VERIFIED, Example.duplicate.is_(None)
    )
    books.lost += [f"the bonus of example {one}" for one in session.scalars(earned.where(Example.id.not_in(paid)))]
    unearned = session.scalars(paid.where(LedgerEntry.example_id.not_in(earned))).all()
    books.doubled += [f"the unearned bonus of example {one}" for one in unearned]
    for round in session.scalars(select(Round)):
        due = due_top_ups(session, round)
        books.lost += [f"{due.cents} cents of top-ups in round {round.number}"] if due.cents else []
    left = select(LedgerEntry).where(LedgerEntry.state.in_(UNSETTLED))
    books.lost += [f"payment {entry.key} is {entry.state}: {entry.last_error}" for entry in session.scalars(left)]


def _check_sums(market: Session, session: Session, books: Books) -> None:
    """Add up by how many cents workers' accounts, statements and stored sums differ from the ledger."""
    mine = select(Worker.external_id, func.sum(LedgerEntry.cents)).join(Worker, Worker.id == LedgerEntry.worker_id)
    paid = mine.where(LedgerEntry.state == EntryState.CONFIRMED).group_by(Worker.external_id)
    for worker, cents in session.execute(paid):
        books.difference_cents += abs(int(cents) - money.balance(market, money.worker(worker)))
    latest = session.scalar(select(func.max(LedgerEntry.settled_at)))
    for task in session.scalars(select(Task)):
        lines = statement(session, task, at=latest + timedelta(days=1)) if latest else []
        owners = [task, *session.scalars(select(Round).where(Round.task_id == task.id).order_by(Round.number))]
        for owner, line in zip(owners, lines, strict=True):
            books.difference_cents += drift(session, owner, line) + (not line.adds_up)


def _confirmed(session: Session, kinds: Collection[EntryKind]) -> list[Payment]:
    rows = session.execute(
        select(LedgerEntry, Assignment.external_id, Worker.external_id)
        .join(Assignment, Assignment.id == LedgerEntry.assignment_id)
        .join(Worker, Worker.id == LedgerEntry.worker_id)
        .where(LedgerEntry.state == EntryState.CONFIRMED, LedgerEntry.kind.in_(kinds))
    )
    return [Payment(row.key, assignment, worker, row.cents, row.fee_cents) for row, assignment, worker in rows]


def _confirmed_cents(store: Store) -> int:
    total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)
    with store.read() as session:
        return int(session.scalar(select(total).where(LedgerEntry.state == EntryState.CONFIRMED)) or 0)


def _compare(what: str, there: Collection[Payment], here: Collection[Payment], books: Books) -> None:
    """Note payments that only one side has, or that one side has twice."""
    books.doubled += _repeated(f"{what} on the marketplace", [one.key for one in there])
    books.doubled += _repeated(f"{what} in the ledger", [one.key for one in here])
    books.lost += [f"{what} {one.key} is in the ledger only" for one in sorted(set(here) - set(there), key=repr)]
    books.doubled += [
        f"{what} {one.key} is on the marketplace only" for one in sorted(set(there) - set(here), key=repr)
    ]


def _repeated(what: str, keys: Collection[str | None] | Iterator[str | None]) -> list[str]:
    return [f"{what} {key}, {times} times" for key, times in Counter(keys).items() if times > 1]
