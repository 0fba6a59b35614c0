"""The ledger: money is reserved, owed, sent and settled, with one entry and one key for each payment.

Only this module changes entries. Every function works inside the caller's transaction.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy.orm import Session

from crowd.profile import Price
from round_manager.database.columns import public_id
from round_manager.errors import LedgerError
from round_manager.models import Assignment, EntryKind, EntryState, Example, Hit, LedgerEntry, Round, Task
from round_manager.money.budget import check_budget

KEY_PREFIX = {EntryKind.REWARD: "r", EntryKind.BONUS: "b", EntryKind.TOP_UP: "t", EntryKind.EXTRA: "x"}
LONGEST_ERROR = 500


@dataclass(frozen=True)
class PossiblePayment:
    """A payment that a HIT may lead to: its kind and its price."""

    kind: EntryKind
    price: Price


def reserve(session: Session, wanted: Sequence[tuple[Hit, PossiblePayment]], *, now: datetime) -> list[str]:
    """Reserve the payments and return their keys; all of them, or none and a BudgetError."""
    _check_budgets(session, wanted)
    rows = [
        {
            "key": f"{KEY_PREFIX[one.kind]}-{public_id(now).hex}",
            "task_id": hit.task_id,
            "round_id": hit.round_id,
            "kind": one.kind,
            "cents": one.price.cents,
            "fee_cents": one.price.fee_cents,
            "state": EntryState.RESERVED,
            "hit_id": hit.id,
            "reserved_at": now,
            "tries": 0,
        }
        for hit, one in wanted
    ]
    if rows:
        session.execute(insert(LedgerEntry), rows)
    return [str(row["key"]) for row in rows]


def rewards_of(assignments: Sequence[Assignment]) -> list[ColumnElement[bool]]:
    """Return the conditions for the rewards of assignments that were not refused."""
    return [
        # By the HIT, which has an index; the assignment alone would need a full scan.
        LedgerEntry.hit_id.in_({work.hit_id for work in assignments}),
        LedgerEntry.assignment_id.in_([work.id for work in assignments]),
        LedgerEntry.kind == EntryKind.REWARD,
        LedgerEntry.state != EntryState.REFUSED,
    ]


def owe_rewards(session: Session, assignments: Sequence[Assignment], *, now: datetime) -> dict[int, LedgerEntry]:
    """Owe the rewards of assignments, and return them by assignment id; rewards that are owed stay as they are."""
    wanted = select(LedgerEntry).where(*rewards_of(assignments))
    owed = {entry.assignment_id: entry for entry in session.scalars(wanted) if entry.assignment_id is not None}
    missing = [work for work in assignments if work.id not in owed]
    free = _reserved(session, {work.hit_id for work in missing}, EntryKind.REWARD)
    unreserved = []
    for work in missing:
        if free.get(work.hit_id):
            owed[work.id] = free[work.hit_id].pop(0)
            _owe(owed[work.id], work, now=now)
        else:
            unreserved.append(work)
    session.flush()
    # Their reservations were released by rejections that are now overridden: reserve again, or raise BudgetError.
    hits = _hits(session, unreserved)
    debts = [Debt(work, EntryKind.REWARD, _reward_price(session, hits[work.hit_id])) for work in unreserved]
    owed.update(zip((work.id for work in unreserved), owe_new(session, debts, now=now), strict=True))
    return owed


def owe_bonus(session: Session, assignment: Assignment, example: Example, reason: str, *, now: datetime) -> LedgerEntry:
    """Owe the bonus of a verified fooling example to its author, once for each example."""
    wanted = select(LedgerEntry).where(LedgerEntry.example_id == example.id, LedgerEntry.state != EntryState.REFUSED)
    known = session.scalar(wanted.limit(1))
    if known is not None:
        return known
    free = _reserved(session, {assignment.hit_id}, EntryKind.BONUS).get(assignment.hit_id)
    if not free:
        raise LedgerError(f"HIT {assignment.hit_id} has no reserved bonus left for assignment {assignment.external_id}")
    return owe(session, free[0], assignment, now=now, example_id=example.id, reason=reason)


def owed_entry(session: Session, assignment: Assignment, kind: EntryKind) -> LedgerEntry | None:
    """Return the entry of a kind that is owed or paid for an assignment, if there is one."""
    found = select(LedgerEntry).where(
        LedgerEntry.assignment_id == assignment.id, LedgerEntry.kind == kind, LedgerEntry.state != EntryState.REFUSED
    )
    return session.scalar(found.limit(1))


def owe(
    session: Session,
    entry: LedgerEntry,
    assignment: Assignment,
    *,
    now: datetime,
    example_id: int | None = None,
    reason: str | None = None,
) -> LedgerEntry:
    """Turn a reserved entry into a debt to the assignment's worker."""
    if entry.state is not EntryState.RESERVED:
        raise LedgerError(f"entry {entry.key} is {entry.state.value}; only a reserved entry can be owed")
    _owe(entry, assignment, now=now, example_id=example_id, reason=reason)
    session.flush()
    return entry


@dataclass(frozen=True)
class Debt:
    """A payment without an earlier reservation, to the assignment's worker."""

    assignment: Assignment
    kind: EntryKind
    price: Price
    reason: str | None = None


def owe_new(session: Session, debts: Sequence[Debt], *, now: datetime) -> list[LedgerEntry]:
    """Reserve and owe payments at once; all of them, or none and a BudgetError."""
    if not debts:
        return []
    hits = _hits(session, [debt.assignment for debt in debts])
    wanted = [(hits[debt.assignment.hit_id], PossiblePayment(debt.kind, debt.price)) for debt in debts]
    keys = reserve(session, wanted, now=now)
    found = session.scalars(select(LedgerEntry).where(LedgerEntry.key.in_(keys)))
    entries = {entry.key: entry for entry in found}
    for key, debt in zip(keys, debts, strict=True):
        _owe(entries[key], debt.assignment, now=now, reason=debt.reason)
    session.flush()
    return [entries[key] for key in keys]


def send(session: Session, entries: Sequence[LedgerEntry], *, now: datetime) -> list[LedgerEntry]:
    """Mark entries as sent, to be committed before the call; entries that another process took are left out."""
    ids = [entry.id for entry in entries]
    wanted = select(LedgerEntry).where(LedgerEntry.id.in_(ids), LedgerEntry.state == EntryState.OWED)
    taken = session.scalars(wanted.order_by(LedgerEntry.id).with_for_update(skip_locked=True)).all()
    for entry in taken:
        entry.state, entry.sent_at, entry.tries = EntryState.SENT, now, entry.tries + 1
        entry.next_try_at, entry.last_error = None, None
    session.flush()
    return list(taken)


def confirm(session: Session, ids: Sequence[int], *, now: datetime) -> None:
    """Record that the marketplace made these payments; settled entries stay as they are."""
    settled = {"state": EntryState.CONFIRMED, "settled_at": now, "held_at": None, "held_reason": None}
    session.execute(update(LedgerEntry).where(*_sent(ids)).values(settled))


def refuse(session: Session, entry_id: int, error: str, *, now: datetime) -> None:
    """Record that the marketplace definitely did not make this payment; its money is released."""
    settled = {"state": EntryState.REFUSED, "settled_at": now, "held_at": None, "held_reason": None}
    session.execute(update(LedgerEntry).where(*_sent([entry_id])).values({**settled, "last_error": _short(error)}))


def renew(session: Session, entry: LedgerEntry, error: str, *, now: datetime, not_before: datetime) -> LedgerEntry:
    """Replace a payment that definitely did not happen by the same debt under a new key."""
    refuse(session, entry.id, error, now=now)
    session.flush()
    hit = session.get_one(Hit, entry.hit_id)
    wanted = PossiblePayment(entry.kind, Price(entry.cents, entry.fee_cents))
    (key,) = reserve(session, [(hit, wanted)], now=now)
    fresh = session.scalars(select(LedgerEntry).where(LedgerEntry.key == key)).one()
    assignment = session.get_one(Assignment, entry.assignment_id)
    owe(session, fresh, assignment, now=now, example_id=entry.example_id, reason=entry.reason)
    fresh.next_try_at, fresh.last_error = not_before, _short(error)
    session.flush()
    return fresh


def still_in_doubt(session: Session, entry_id: int, error: str, *, next_try_at: datetime) -> None:
    """Record an error of a payment that may have been made: it stays sent, to be reconciled."""
    values = {"last_error": _short(error), "next_try_at": next_try_at}
    session.execute(update(LedgerEntry).where(*_sent([entry_id])).values(values))


def hold(session: Session, entry_id: int, reason: str, *, now: datetime) -> None:
    """Hold a payment that reconciliation cannot settle, for a person to decide."""
    values = {"held_at": now, "held_reason": reason, "next_try_at": None}
    session.execute(update(LedgerEntry).where(*_sent([entry_id]), LedgerEntry.held_at.is_(None)).values(values))


def release(
    session: Session, hit_ids: Collection[int], kind: EntryKind, count: int | None = None, *, now: datetime
) -> int:
    """Release HITs' reserved entries of one kind, all or up to `count`; return how many."""
    free = select(LedgerEntry.id).where(
        LedgerEntry.hit_id.in_(hit_ids), LedgerEntry.kind == kind, LedgerEntry.state == EntryState.RESERVED
    )
    ids = session.scalars(free.order_by(LedgerEntry.id).limit(count).with_for_update(skip_locked=True)).all()
    if ids:
        values = {"state": EntryState.RELEASED, "settled_at": now}
        session.execute(update(LedgerEntry).where(LedgerEntry.id.in_(ids)).values(values))
    return len(ids)


def _check_budgets(session: Session, wanted: Sequence[tuple[Hit, PossiblePayment]]) -> None:
    needs: dict[tuple[int, int | None], int] = {}
    for hit, one in wanted:
        place = (hit.task_id, hit.round_id)
        needs[place] = needs.get(place, 0) + one.price.total_cents
    for (task_id, round_id), cents in sorted(needs.items()):
        round = None if round_id is None else session.get_one(Round, round_id)
        check_budget(session, session.get_one(Task, task_id), round, cents)


def _reward_price(session: Session, hit: Hit) -> Price:
    """Return the price at which one assignment of the HIT was reserved."""
    any_reward = select(LedgerEntry.cents, LedgerEntry.fee_cents).where(
        LedgerEntry.hit_id == hit.id, LedgerEntry.kind == EntryKind.REWARD
    )
    found = session.execute(any_reward.limit(1)).first()
    if found is None:
        raise LedgerError(f"HIT {hit.key} never had a reserved reward; it was not posted from this database")
    return Price(found.cents, found.fee_cents)


def _owe(
    entry: LedgerEntry,
    assignment: Assignment,
    *,
    now: datetime,
    example_id: int | None = None,
    reason: str | None = None,
) -> None:
    entry.assignment_id, entry.worker_id, entry.example_id = assignment.id, assignment.worker_id, example_id
    entry.state, entry.owed_at, entry.reason = EntryState.OWED, now, reason


def _reserved(session: Session, hit_ids: set[int], kind: EntryKind) -> dict[int, list[LedgerEntry]]:
    """Lock and return the HITs' reserved entries of a kind, by HIT."""
    free = select(LedgerEntry).where(
        LedgerEntry.hit_id.in_(hit_ids), LedgerEntry.kind == kind, LedgerEntry.state == EntryState.RESERVED
    )
    found: dict[int, list[LedgerEntry]] = {}
    for entry in session.scalars(free.order_by(LedgerEntry.id).with_for_update(skip_locked=True)):
        found.setdefault(entry.hit_id, []).append(entry)
    return found


def _hits(session: Session, assignments: Sequence[Assignment]) -> dict[int, Hit]:
    """Return the HITs of assignments, by id."""
    wanted = select(Hit).where(Hit.id.in_({work.hit_id for work in assignments}))
    return {hit.id: hit for hit in session.scalars(wanted)}


def _sent(ids: Sequence[int]) -> tuple[ColumnElement[bool], ...]:
    return LedgerEntry.id.in_(ids), LedgerEntry.state == EntryState.SENT


def _short(error: str) -> str:
    return error[:LONGEST_ERROR]
