"""Money: accounts with balances, and movements between them; the sum over all accounts is always zero."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace.errors import InsufficientFunds
from mturk.marketplace.tables import Account, Movement

DEPOSITS = "deposits"
FEES = "fees"
PAYOUTS = "payouts"


def available(requester_id: str) -> str:
    """The account of what a requester can spend."""
    return f"available:{requester_id}"


def held(requester_id: str) -> str:
    """The account of what is set aside for a requester's HITs."""
    return f"held:{requester_id}"


def worker(worker_id: str) -> str:
    """The account of what a worker has earned and not been paid out."""
    return f"worker:{worker_id}"


def balance(session: Session, name: str) -> int:
    """What is in an account; nothing when nothing was ever moved there."""
    account = session.get(Account, name)
    return account.balance_cents if account else 0


def move(
    session: Session, source: str, target: str, cents: int, reason: str, now: datetime, *, hit_id: str | None = None
) -> None:
    """Moves money, all or nothing; more than a source has is refused."""
    pay(session, source, ((target, cents, reason),), now, hit_id=hit_id)


def pay(
    session: Session,
    source: str,
    payments: Sequence[tuple[str, int, str]],
    now: datetime,
    *,
    hit_id: str | None = None,
    assignment_id: str | None = None,
) -> None:
    """Moves money to several accounts, each with how much and why: all of it, or nothing."""
    accounts = _accounts(session, [source, *(target for target, _, _ in payments)])
    total = sum(cents for _, cents, _ in payments)
    giver = accounts[source]
    if source != DEPOSITS and giver.balance_cents < total:
        raise InsufficientFunds(total, giver.balance_cents)
    for target, cents, reason in payments:
        if not cents:
            continue
        giver.balance_cents -= cents
        accounts[target].balance_cents += cents
        session.add(
            Movement(
                source=source,
                target=target,
                cents=cents,
                reason=reason,
                moved_at=now,
                hit_id=hit_id,
                assignment_id=assignment_id,
            )
        )


def _accounts(session: Session, names: Sequence[str]) -> dict[str, Account]:
    """The accounts, read once in a transaction however often money is moved in it."""
    known: dict[str, Account] = session.info.setdefault("accounts", {})
    missing = [name for name in dict.fromkeys(names) if name not in known]
    if missing:
        known |= {one.name: one for one in session.scalars(select(Account).where(Account.name.in_(missing)))}
    new = [Account(name=name, balance_cents=0) for name in missing if name not in known]
    if new:
        known |= {account.name: account for account in new}
        session.add_all(new)
        # Before their first movement: there is no relationship that would tell the order.
        session.flush()
    return known
