"""Accounts and the movements between them; the balances of all accounts always sum to zero."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace.errors import InsufficientBalance
from mturk.marketplace.tables.people import Account, Movement

DEPOSITS = "deposits"
FEES = "fees"
PAYOUTS = "payouts"


@dataclass(frozen=True)
class MoneySummary:
    """Where all the money is. It comes in by deposits only."""

    deposited_cents: int
    available_cents: int
    held_cents: int
    workers_cents: int
    fees_cents: int
    paid_out_cents: int

    @property
    def is_balanced(self) -> bool:
        """Whether every deposited cent is accounted for."""
        found = self.available_cents + self.held_cents + self.workers_cents + self.fees_cents + self.paid_out_cents
        return found == self.deposited_cents


def available(requester_id: str) -> str:
    """Return the name of the account with what a requester can spend."""
    return f"available:{requester_id}"


def held(requester_id: str) -> str:
    """Return the name of the account with what is reserved for a requester's HITs."""
    return f"held:{requester_id}"


def worker(worker_id: str) -> str:
    """Return the name of the account with what a worker earned and was not paid out yet."""
    return f"worker:{worker_id}"


def balance(session: Session, name: str) -> int:
    """Return the balance of an account in cents; 0 if nothing was ever moved there."""
    account = session.get(Account, name)
    return account.balance_cents if account else 0


def summary(session: Session) -> MoneySummary:
    """Return the sums of all accounts by kind."""
    sums = {"deposits": 0, "available": 0, "held": 0, "worker": 0, "fees": 0, "payouts": 0}
    for name, cents in session.execute(select(Account.name, Account.balance_cents)):
        sums[name.partition(":")[0]] += cents
    return MoneySummary(
        deposited_cents=-sums["deposits"],
        available_cents=sums["available"],
        held_cents=sums["held"],
        workers_cents=sums["worker"],
        fees_cents=sums["fees"],
        paid_out_cents=sums["payouts"],
    )


def move(
    session: Session, source: str, target: str, cents: int, reason: str, now: datetime, *, hit_id: str | None = None
) -> None:
    """Move money between two accounts; refuse more than the source has."""
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
    """Move money to several accounts, all or nothing; each payment is a target, an amount in cents and a reason."""
    accounts = _accounts(session, [source, *(target for target, _, _ in payments)])
    total = sum(cents for _, cents, _ in payments)
    payer = accounts[source]
    if source != DEPOSITS and payer.balance_cents < total:
        raise InsufficientBalance(total, payer.balance_cents)
    for target, cents, reason in payments:
        if not cents:
            continue
        payer.balance_cents -= cents
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
    """Return the accounts; each is read once in a transaction."""
    known: dict[str, Account] = session.info.setdefault("accounts", {})
    missing = [name for name in dict.fromkeys(names) if name not in known]
    if missing:
        known |= {one.name: one for one in session.scalars(select(Account).where(Account.name.in_(missing)))}
    new = [Account(name=name, balance_cents=0) for name in missing if name not in known]
    if new:
        known |= {account.name: account for account in new}
        session.add_all(new)
        # Flushed before the first movement: without a relationship, SQLAlchemy does not know the order.
        session.flush()
    return known
