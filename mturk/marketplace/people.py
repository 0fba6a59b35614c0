"""Requesters with their keys and money, and workers: what the marketplace's owner looks after."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace import money
from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.ids import access_key_id, access_secret, person_id
from mturk.marketplace.tables import AccessKey, Requester, Worker

LONGEST_NAME = 100


@dataclass(frozen=True)
class KeyPair:
    """An access key as it is shown once; the secret stays out of logs."""

    id: str
    secret: str = field(repr=False)


def add_requester(session: Session, name: str, now: datetime) -> Requester:
    """A new requester with an empty account; names are unique, also without regard to case."""
    name = _name(name)
    for known in session.scalars(select(Requester.name)):
        if known.casefold() == name.casefold():
            raise MarketError(
                "RequesterAlreadyExists",
                f"there is an account {known} already; write it exactly so, or choose another name",
            )
    requester = Requester(id=person_id(), name=name, created_at=now)
    session.add(requester)
    session.flush()
    return requester


def find_requester(session: Session, name: str) -> Requester | None:
    """The requester of that name."""
    return session.scalars(select(Requester).where(Requester.name == name)).one_or_none()


def add_key(session: Session, requester: Requester, now: datetime) -> KeyPair:
    """Another access key for a requester."""
    pair = KeyPair(access_key_id(), access_secret())
    session.add(AccessKey(id=pair.id, secret=pair.secret, requester_id=requester.id, created_at=now))
    session.flush()
    return pair


def keys(session: Session, requester: Requester) -> list[AccessKey]:
    """The access keys of a requester, the oldest first."""
    mine = select(AccessKey).where(AccessKey.requester_id == requester.id)
    return list(session.scalars(mine.order_by(AccessKey.created_at, AccessKey.id)))


def revoke_key(session: Session, requester: Requester, key_id: str) -> None:
    """The key signs nothing any more."""
    found = session.get(AccessKey, key_id)
    if found is None or found.requester_id != requester.id:
        raise MarketError(
            "AccessKeyDoesNotExist",
            f"{requester.name} has no access key {key_id}; `outfox marketplace key {requester.name}` lists them",
        )
    session.delete(found)
    session.flush()


def deposit(session: Session, requester: Requester, cents: int, now: datetime) -> int:
    """Adds money to what a requester can spend; the new balance."""
    if cents <= 0:
        raise bad_parameter("a deposit is more than nothing")
    money.move(session, money.DEPOSITS, money.available(requester.id), cents, "deposit", now)
    session.flush()
    return money.balance(session, money.available(requester.id))


def add_worker(session: Session, name: str, now: datetime, *, country: str = "", adult: bool = False) -> Worker:
    """A new worker."""
    if country and not re.fullmatch("[A-Z]{2}", country):
        raise bad_parameter(f"{country!r} is no country; write two capital letters such as US")
    worker = Worker(id=person_id(), name=_name(name), country=country, adult=adult, created_at=now)
    session.add(worker)
    session.flush()
    return worker


def _name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise bad_parameter(f"a name has 1 to {LONGEST_NAME} characters that can be printed")
    return name
