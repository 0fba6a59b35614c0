"""Requester accounts: open one, deposit money, list and revoke access keys, and the status of the whole marketplace."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.marketplace import money, people
from mturk.marketplace.errors import AccountNotFound, InvalidParameter
from mturk.marketplace.market import Market
from mturk.marketplace.money import MoneySummary
from mturk.marketplace.people import KeyPair
from mturk.marketplace.services.workers import WorkerSummary, last_address, worker_summaries
from mturk.marketplace.tables.people import AccessKey, Requester, RequesterApp
from mturk.marketplace.tables.work import Hit, HitStatus


@dataclass(frozen=True)
class AccountOpened:
    """A requester's account with a new access key; `is_new` unless the account existed before."""

    name: str
    requester_id: str
    is_new: bool
    key: KeyPair


@dataclass(frozen=True)
class DepositMade:
    """A deposit, and what the requester can spend after it."""

    account: str
    cents: int
    available_cents: int


@dataclass(frozen=True)
class KeySummary:
    """An access key without its secret."""

    id: str
    created_at: datetime


@dataclass(frozen=True)
class AccountSummary:
    """A requester's money, HITs and access keys."""

    name: str
    requester_id: str
    available_cents: int
    held_cents: int
    open_hits: int
    to_decide: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class MarketplaceStatus:
    """Accounts, workers, money, and the URL under which the marketplace was last served."""

    accounts: tuple[AccountSummary, ...]
    workers: tuple[WorkerSummary, ...]
    money: MoneySummary
    address: str | None


def set_web_app(market: Market, name: str, url: str) -> str:
    """Store the address of a requester's web app, which is asked what their HITs hold; an empty one asks nobody."""
    with market.write() as session:
        requester = people.find_requester(session, name.strip())
        if requester is None:
            raise AccountNotFound(name)
        known = session.get(RequesterApp, requester.id)
        if known is not None:
            session.delete(known)
            session.flush()
        if url:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
                raise InvalidParameter(f"{url} is not the address of a web app; it begins with http:// or https://")
            session.add(RequesterApp(requester_id=requester.id, url=url.rstrip("/")))
        return requester.name


def open_account(market: Market, name: str, *, deposit_cents: int = 0) -> AccountOpened:
    """Open an account with an access key, and deposit money in it; an existing account only gets another key."""
    now = market.now()
    with market.write() as session:
        requester = people.find_requester(session, name.strip())
        is_new = requester is None
        if requester is None:
            requester = people.add_requester(session, name, now)
            if deposit_cents:
                people.deposit(session, requester, deposit_cents, now)
        key = people.add_key(session, requester, now)
        return AccountOpened(requester.name, requester.id, is_new, key)


def deposit(market: Market, account: str, cents: int) -> DepositMade:
    """Add money to what a requester can spend."""
    with market.write() as session:
        available = people.deposit(session, _account(session, account), cents, market.now())
    return DepositMade(account, cents, available)


def list_keys(market: Market, account: str) -> list[KeySummary]:
    """List the access keys of an account, the oldest first."""
    with market.read() as session:
        return _keys(session, _account(session, account))


def revoke_key(market: Market, account: str, key_id: str) -> list[KeySummary]:
    """Revoke an access key; return the remaining ones."""
    with market.write() as session:
        requester = _account(session, account)
        people.revoke_key(session, requester, key_id)
        return _keys(session, requester)


def is_valid_key(market: Market, account: str, key_id: str, secret: str) -> bool:
    """Return whether the account has this access key."""
    with market.glance() as session:
        requester = people.find_requester(session, account)
        key = session.get(AccessKey, key_id)
        return bool(requester and key and key.requester_id == requester.id and key.secret == secret)


def marketplace_status(market: Market) -> MarketplaceStatus:
    """Return the status of accounts, workers and money."""
    with market.read() as session:
        return MarketplaceStatus(
            accounts=tuple(account_summaries(session)),
            workers=tuple(worker_summaries(session)),
            money=money.summary(session),
            address=last_address(session),
        )


def account_summaries(session: Session) -> list[AccountSummary]:
    """Return a summary of every account, by name."""
    opened = select(Hit.requester_id, func.count()).where(Hit.status == HitStatus.ASSIGNABLE).group_by(Hit.requester_id)
    undecided = select(Hit.requester_id, func.sum(Hit.undecided)).where(Hit.undecided > 0).group_by(Hit.requester_id)
    open_hits = {key: int(count) for key, count in session.execute(opened)}
    to_decide = {key: int(count) for key, count in session.execute(undecided)}
    return [
        AccountSummary(
            name=requester.name,
            requester_id=requester.id,
            available_cents=money.balance(session, money.available(requester.id)),
            held_cents=money.balance(session, money.held(requester.id)),
            open_hits=open_hits.get(requester.id, 0),
            to_decide=to_decide.get(requester.id, 0),
            keys=tuple(key.id for key in people.keys(session, requester)),
        )
        for requester in session.scalars(select(Requester).order_by(Requester.name))
    ]


def _account(session: Session, name: str) -> Requester:
    requester = people.find_requester(session, name)
    if requester is None:
        raise AccountNotFound(name)
    return requester


def _keys(session: Session, requester: Requester) -> list[KeySummary]:
    return [KeySummary(key.id, key.created_at) for key in people.keys(session, requester)]
