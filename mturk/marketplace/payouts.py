"""Paying workers what they have earned: a batch takes every worker's balance, once, and can be printed again."""

import csv
import io
import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace import money
from mturk.marketplace.errors import MarketError
from mturk.marketplace.site_tables import Payout, PayoutLine
from mturk.marketplace.tables import Account, Worker

COLUMNS = ("worker_id", "name", "cents", "dollars", "batch", "from", "until")
# With one of these at its beginning, a cell is a formula to a spreadsheet.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Share:
    """What one worker gets of a batch."""

    worker_id: str
    name: str
    cents: int


@dataclass(frozen=True)
class Batch:
    """A payout; without an id it is only what one made now would be."""

    id: str
    since: datetime | None
    until: datetime
    shares: tuple[Share, ...]

    @property
    def cents(self) -> int:
        """All shares together."""
        return sum(share.cents for share in self.shares)


def due(session: Session, now: datetime) -> Batch:
    """What a payout would pay now; nothing is changed."""
    owed = (
        select(Worker.id, Worker.name, Account.balance_cents)
        .join(Account, Account.name == "worker:" + Worker.id)
        .where(Account.balance_cents > 0)
        .order_by(Worker.name, Worker.id)
    )
    last = session.scalar(select(Payout.made_at).order_by(Payout.number.desc()).limit(1))
    return Batch("", last, now, tuple(Share(*row) for row in session.execute(owed)))


def pay_out(session: Session, now: datetime) -> Batch:
    """Moves everything that is due to what was paid out; where nothing is due, no batch is made."""
    batch = due(session, now)
    if not batch.shares:
        return batch
    made = Payout(id=f"{now:%Y%m%d}-{secrets.token_hex(3)}", since=batch.since, made_at=now)
    session.add(made)
    session.flush()
    for share in batch.shares:
        money.move(session, money.worker(share.worker_id), money.PAYOUTS, share.cents, f"payout {made.id}", now)
        session.add(PayoutLine(payout_id=made.id, worker_id=share.worker_id, name=share.name, cents=share.cents))
    session.flush()
    return Batch(made.id, batch.since, now, batch.shares)


def paid_out(session: Session, batch_id: str) -> Batch:
    """A batch of before, as it was."""
    made = session.scalar(select(Payout).where(Payout.id == batch_id))
    if made is None:
        known = session.scalars(select(Payout.id).order_by(Payout.number.desc()).limit(3)).all()
        last = f"the last are {', '.join(known)}" if known else "none was made yet"
        raise MarketError("PayoutDoesNotExist", f"there is no payout {batch_id}; {last}")
    lines = select(PayoutLine).where(PayoutLine.payout_id == batch_id).order_by(PayoutLine.name, PayoutLine.worker_id)
    shares = tuple(Share(line.worker_id, line.name, line.cents) for line in session.scalars(lines))
    return Batch(made.id, made.since, made.made_at, shares)


def as_csv(batch: Batch) -> str:
    """The batch for whoever makes the transfers; what workers are called cannot act as a formula."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    since = f"{batch.since:%Y-%m-%dT%H:%M:%SZ}" if batch.since else ""
    for share in batch.shares:
        sums = (share.cents, f"{share.cents // 100}.{share.cents % 100:02d}")
        period = (batch.id, since, f"{batch.until:%Y-%m-%dT%H:%M:%SZ}")
        rows.writerow((share.worker_id, _harmless(share.name), *sums, *period))
    return out.getvalue()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULA) else cell
