"""Workers: invite them with sign-in links, list them with their results, and read the messages to one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.marketplace import people
from mturk.marketplace.errors import WorkerNotFound
from mturk.marketplace.market import Market
from mturk.marketplace.tables.people import Account, Login, Message, Requester, SiteAddress, Worker


@dataclass(frozen=True)
class WorkerSummary:
    """A worker as the owner sees them; `balance_cents` is earned and not paid out yet."""

    worker_id: str
    name: str
    country: str
    adult: bool
    signed_in: bool
    approved: int
    rejected: int
    balance_cents: int


@dataclass(frozen=True)
class InvitedWorker:
    """A worker, and a link that signs them in once."""

    worker_id: str
    name: str
    link: str
    expires_at: datetime


@dataclass(frozen=True)
class WorkerMessage:
    """A message as the worker reads it; it is new until it was shown once."""

    subject: str
    requester: str
    text: str
    sent_at: datetime
    is_new: bool


def invite_workers(
    market: Market, names: Sequence[str], address: str, *, country: str = "", adult: bool = False
) -> list[InvitedWorker]:
    """Create workers with these names, all or none of them, each with a sign-in link at this URL."""
    with market.write() as session:
        workers = [people.add_worker(session, name, market.now(), country=country, adult=adult) for name in names]
        return [_invite(session, worker, address, market.now()) for worker in workers]


def invite_again(market: Market, worker_id: str, address: str) -> InvitedWorker:
    """Create another sign-in link for an existing worker."""
    with market.write() as session:
        worker = session.get(Worker, worker_id)
        if worker is None:
            raise WorkerNotFound(worker_id)
        return _invite(session, worker, address, market.now())


def list_workers(market: Market) -> list[WorkerSummary]:
    """List all workers, by name."""
    with market.read() as session:
        return worker_summaries(session)


def read_messages(market: Market, worker_id: str, *, limit: int) -> list[WorkerMessage]:
    """Return the latest messages to a worker, and mark them as read."""
    latest = (
        select(Message, Requester.name)
        .join(Requester, Requester.id == Message.requester_id)
        .where(Message.worker_id == worker_id)
        .order_by(Message.number.desc())
        .limit(limit)
    )
    with market.write() as session:
        found = session.execute(latest).all()
        messages = [WorkerMessage(one.subject, name, one.text, one.sent_at, one.read_at is None) for one, name in found]
        for message, _ in found:
            message.read_at = message.read_at or market.now()
    return messages


def public_address_of(market: Market) -> str | None:
    """Return the URL under which the site was last served, or None."""
    with market.glance() as session:
        return last_address(session)


def remember_address(market: Market, url: str) -> None:
    """Store the URL under which the site is served, for links that are created later."""
    with market.write() as session:
        session.merge(SiteAddress(number=1, url=url))


def last_address(session: Session) -> str | None:
    """Return the URL under which the site was last served, or None."""
    return session.scalar(select(SiteAddress.url))


def worker_summaries(session: Session) -> list[WorkerSummary]:
    """Return a summary of every worker, by name."""
    signed_in = set(session.scalars(select(Login.worker_id).distinct()))
    found = (
        select(Worker, func.coalesce(Account.balance_cents, 0))
        .outerjoin(Account, Account.name == "worker:" + Worker.id)
        .order_by(Worker.name, Worker.id)
    )
    return [
        WorkerSummary(
            worker_id=worker.id,
            name=worker.name,
            country=worker.country,
            adult=worker.adult,
            signed_in=worker.id in signed_in,
            approved=worker.approved,
            rejected=worker.rejected,
            balance_cents=balance,
        )
        for worker, balance in session.execute(found)
    ]


def _invite(session: Session, worker: Worker, address: str, now: datetime) -> InvitedWorker:
    token = people.create_link(session, worker.id, now)
    return InvitedWorker(worker.id, worker.name, f"{address}/join/{token}", now + people.INVITATION_LIFE)
