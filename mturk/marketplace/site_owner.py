"""What the marketplace's owner looks at and hands out: accounts, sums, workers, and links for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.marketplace import money, people, sessions
from mturk.marketplace.errors import MarketError
from mturk.marketplace.market import Market
from mturk.marketplace.site_tables import Login, SiteAddress
from mturk.marketplace.tables import Account, Hit, HitStatus, Requester, Worker


@dataclass(frozen=True)
class AccountSeen:
    """A requester's money and work."""

    name: str
    requester_id: str
    available_cents: int
    held_cents: int
    open_hits: int
    to_decide: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Sums:
    """Where all the money is; it came in by deposits, and is somewhere."""

    deposited_cents: int
    available_cents: int
    held_cents: int
    workers_cents: int
    fees_cents: int
    paid_out_cents: int

    @property
    def add_up(self) -> bool:
        """Whether every deposited cent is in one of the places."""
        places = self.available_cents + self.held_cents + self.workers_cents + self.fees_cents + self.paid_out_cents
        return places == self.deposited_cents


@dataclass(frozen=True)
class WorkerSeen:
    """A worker as the owner sees them; `balance_cents` is earned and not paid out."""

    worker_id: str
    name: str
    country: str
    adult: bool
    signed_in: bool
    approved: int
    rejected: int
    balance_cents: int


@dataclass(frozen=True)
class Invited:
    """A worker, and the link that signs them in once."""

    worker_id: str
    name: str
    link: str
    expires_at: datetime


def accounts(session: Session) -> list[AccountSeen]:
    """Every requester, by name."""
    opened = select(Hit.requester_id, func.count()).where(Hit.status == HitStatus.ASSIGNABLE).group_by(Hit.requester_id)
    undecided = select(Hit.requester_id, func.sum(Hit.undecided)).where(Hit.undecided > 0).group_by(Hit.requester_id)
    open_hits = {key: int(count) for key, count in session.execute(opened)}
    to_decide = {key: int(count) for key, count in session.execute(undecided)}
    return [
        AccountSeen(
            name=one.name,
            requester_id=one.id,
            available_cents=money.balance(session, money.available(one.id)),
            held_cents=money.balance(session, money.held(one.id)),
            open_hits=open_hits.get(one.id, 0),
            to_decide=to_decide.get(one.id, 0),
            keys=tuple(key.id for key in people.keys(session, one)),
        )
        for one in session.scalars(select(Requester).order_by(Requester.name))
    ]


def sums(session: Session) -> Sums:
    """All accounts added up by kind."""
    found = {"deposits": 0, "available": 0, "held": 0, "worker": 0, "fees": 0, "payouts": 0}
    for name, cents in session.execute(select(Account.name, Account.balance_cents)):
        found[name.partition(":")[0]] += cents
    return Sums(
        deposited_cents=-found["deposits"],
        available_cents=found["available"],
        held_cents=found["held"],
        workers_cents=found["worker"],
        fees_cents=found["fees"],
        paid_out_cents=found["payouts"],
    )


def workers(session: Session) -> list[WorkerSeen]:
    """Every worker, by name."""
    came = set(session.scalars(select(Login.worker_id).distinct()))
    found = (
        select(Worker, func.coalesce(Account.balance_cents, 0))
        .outerjoin(Account, Account.name == "worker:" + Worker.id)
        .order_by(Worker.name, Worker.id)
    )
    return [
        WorkerSeen(one.id, one.name, one.country, one.adult, one.id in came, one.approved, one.rejected, balance)
        for one, balance in session.execute(found)
    ]


def invite_all(
    session: Session, names: Sequence[str], address: str, now: datetime, *, country: str, adult: bool
) -> list[Invited]:
    """New workers of these names, all or none of them, each with a link."""
    made = [people.add_worker(session, name, now, country=country, adult=adult) for name in names]
    return [_invited(session, worker, address, now) for worker in made]


def invite_again(session: Session, worker_id: str, address: str, now: datetime) -> Invited:
    """Another link for a worker who is there already."""
    worker = session.get(Worker, worker_id)
    if worker is None:
        raise MarketError(
            "WorkerDoesNotExist", f"there is no worker {worker_id}; `outfox marketplace workers` lists them"
        )
    return _invited(session, worker, address, now)


def remember_address(market: Market, url: str) -> None:
    """Links that are made from now on lead there."""
    with market.write() as session:
        session.merge(SiteAddress(number=1, url=url))


def known_address(session: Session) -> str | None:
    """Where the site was reached when it was last served."""
    return session.scalar(select(SiteAddress.url))


def _invited(session: Session, worker: Worker, address: str, now: datetime) -> Invited:
    token = sessions.invite(session, worker.id, now)
    return Invited(worker.id, worker.name, f"{address}/join/{token}", now + sessions.INVITATION_LIFE)
