"""Workers' earnings: what a worker earned, and payouts that take every worker's balance in one batch."""

import csv
import io
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from crowd.inquiries import MOST_ASSIGNMENTS
from mturk.marketplace import money
from mturk.marketplace.errors import PayoutNotFound
from mturk.marketplace.inquiries import Inquirer
from mturk.marketplace.market import Market
from mturk.marketplace.services.offers import Outcomes, outcomes_of, web_apps
from mturk.marketplace.tables.people import Account, Movement, Payout, PayoutLine, Requester, Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Bonus, Hit, HitType

CSV_COLUMNS = ("worker_id", "name", "cents", "dollars", "batch", "from", "until")
# A spreadsheet reads a cell that starts with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class EarnedAssignment:
    """An assignment that a worker submitted: its reward, and how it was decided."""

    assignment_id: str
    title: str
    requester: str
    status: AssignmentStatus
    reward_cents: int
    submitted_at: datetime
    decided_at: datetime | None
    feedback: str
    requester_id: str = ""


@dataclass(frozen=True)
class EarnedBonus:
    """A bonus, with the requester's reason."""

    assignment_id: str
    title: str
    requester: str
    cents: int
    reason: str
    paid_at: datetime


@dataclass(frozen=True)
class Earnings:
    """A worker's earnings, the newest first."""

    assignments: list[EarnedAssignment]
    bonuses: list[EarnedBonus]
    approved_cents: int
    bonus_cents: int
    pending_cents: int
    paid_out_cents: int

    @property
    def total_cents(self) -> int:
        """Rewards and bonuses earned so far."""
        return self.approved_cents + self.bonus_cents

    @property
    def balance_cents(self) -> int:
        """Earned and not paid out yet."""
        return self.total_cents - self.paid_out_cents


@dataclass(frozen=True)
class PayoutShare:
    """One worker's share of a payout."""

    worker_id: str
    name: str
    cents: int


@dataclass(frozen=True)
class PayoutBatch:
    """A payout; without an id it is a preview of the next one."""

    id: str
    since: datetime | None
    until: datetime
    shares: tuple[PayoutShare, ...]

    @property
    def cents(self) -> int:
        """The sum of all shares."""
        return sum(share.cents for share in self.shares)


def preview_payout(market: Market) -> PayoutBatch:
    """Return what a payout would pay now, without making it."""
    with market.read() as session:
        return _next_batch(session, market.now())


def make_payout(market: Market) -> PayoutBatch:
    """Pay out every worker's balance; without any balance, no batch is created."""
    now = market.now()
    with market.write() as session:
        batch = _next_batch(session, now)
        if not batch.shares:
            return batch
        payout = Payout(id=f"{now:%Y%m%d}-{secrets.token_hex(3)}", since=batch.since, made_at=now)
        session.add(payout)
        session.flush()
        for share in batch.shares:
            money.move(session, money.worker(share.worker_id), money.PAYOUTS, share.cents, f"payout {payout.id}", now)
            session.add(PayoutLine(payout_id=payout.id, worker_id=share.worker_id, name=share.name, cents=share.cents))
        return PayoutBatch(payout.id, batch.since, now, batch.shares)


def find_payout(market: Market, batch_id: str) -> PayoutBatch:
    """Return an earlier payout as it was made."""
    with market.read() as session:
        payout = session.scalar(select(Payout).where(Payout.id == batch_id))
        if payout is None:
            known = session.scalars(select(Payout.id).order_by(Payout.number.desc()).limit(3)).all()
            latest = f"the latest are {', '.join(known)}" if known else "none was made yet"
            raise PayoutNotFound("PayoutDoesNotExist", f"payout {batch_id} does not exist; {latest}")
        lines = select(PayoutLine).where(PayoutLine.payout_id == batch_id)
        ordered = session.scalars(lines.order_by(PayoutLine.name, PayoutLine.worker_id))
        shares = tuple(PayoutShare(line.worker_id, line.name, line.cents) for line in ordered)
        return PayoutBatch(payout.id, payout.since, payout.made_at, shares)


def payout_csv(batch: PayoutBatch) -> str:
    """Return a payout as CSV, with worker names escaped so that spreadsheets do not run them as formulas."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(CSV_COLUMNS)
    since = f"{batch.since:%Y-%m-%dT%H:%M:%SZ}" if batch.since else ""
    for share in batch.shares:
        amounts = (share.cents, f"{share.cents // 100}.{share.cents % 100:02d}")
        period = (batch.id, since, f"{batch.until:%Y-%m-%dT%H:%M:%SZ}")
        rows.writerow((share.worker_id, _escape_formula(share.name), *amounts, *period))
    return out.getvalue()


def worker_earnings(market: Market, worker_id: str) -> Earnings:
    """Return what a worker earned."""
    with market.read() as session:
        assignments, bonuses = _assignments(session, worker_id), _bonuses(session, worker_id)
        return Earnings(
            assignments=assignments,
            bonuses=bonuses,
            approved_cents=_cents(assignments, AssignmentStatus.APPROVED),
            bonus_cents=sum(bonus.cents for bonus in bonuses),
            pending_cents=_cents(assignments, AssignmentStatus.SUBMITTED),
            paid_out_cents=_paid_out(session, worker_id),
        )


def example_outcomes(
    market: Market, inquirer: Inquirer, worker_id: str, assignments: Sequence[EarnedAssignment]
) -> Outcomes:
    """Ask the requesters of some assignments what became of the examples in them."""
    work: dict[str, list[str]] = {}
    for one in assignments[:MOST_ASSIGNMENTS]:
        work.setdefault(one.requester_id, []).append(one.assignment_id)
    with market.read() as session:
        apps = web_apps(session, work)
    return outcomes_of(inquirer, apps, worker_id, work, market.now())


def _next_batch(session: Session, now: datetime) -> PayoutBatch:
    balances = (
        select(Worker.id, Worker.name, Account.balance_cents)
        .join(Account, Account.name == "worker:" + Worker.id)
        .where(Account.balance_cents > 0)
        .order_by(Worker.name, Worker.id)
    )
    last = session.scalar(select(Payout.made_at).order_by(Payout.number.desc()).limit(1))
    return PayoutBatch("", last, now, tuple(PayoutShare(*row) for row in session.execute(balances)))


def _assignments(session: Session, worker_id: str) -> list[EarnedAssignment]:
    submitted = (
        select(Assignment, HitType.title, Requester.name, Hit.reward_cents, Requester.id)
        .join(Hit, Hit.id == Assignment.hit_id)
        .join(HitType, HitType.id == Hit.type_id)
        .join(Requester, Requester.id == Hit.requester_id)
        .where(Assignment.worker_id == worker_id)
        .order_by(Assignment.submitted_at.desc(), Assignment.number.desc())
    )
    return [
        EarnedAssignment(
            assignment_id=assignment.id,
            title=title,
            requester=requester,
            status=assignment.status,
            reward_cents=reward,
            submitted_at=assignment.submitted_at,
            decided_at=assignment.approved_at or assignment.rejected_at,
            feedback=assignment.feedback,
            requester_id=requester_id,
        )
        for assignment, title, requester, reward, requester_id in session.execute(submitted)
        if assignment.submitted_at is not None
    ]


def _bonuses(session: Session, worker_id: str) -> list[EarnedBonus]:
    paid = (
        select(Bonus, HitType.title, Requester.name)
        .join(Hit, Hit.id == Bonus.hit_id)
        .join(HitType, HitType.id == Hit.type_id)
        .join(Requester, Requester.id == Bonus.requester_id)
        .where(Bonus.worker_id == worker_id)
        .order_by(Bonus.number.desc())
    )
    return [
        EarnedBonus(bonus.assignment_id, title, requester, bonus.cents, bonus.reason, bonus.paid_at)
        for bonus, title, requester in session.execute(paid)
    ]


def _cents(assignments: list[EarnedAssignment], status: AssignmentStatus) -> int:
    return sum(one.reward_cents for one in assignments if one.status is status)


def _paid_out(session: Session, worker_id: str) -> int:
    paid = select(func.coalesce(func.sum(Movement.cents), 0)).where(
        Movement.source == money.worker(worker_id), Movement.target == money.PAYOUTS
    )
    # PostgreSQL returns sums as decimals.
    return int(session.execute(paid).scalar_one())


def _escape_formula(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell
