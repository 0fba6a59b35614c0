"""Requesters with their access keys and deposits, and workers with their sign-in links."""

import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace import money
from mturk.marketplace.errors import AccessKeyNotFound, EntityExists, InvalidParameter
from mturk.marketplace.tables.base import access_key_id, access_secret, hash_token, person_id
from mturk.marketplace.tables.people import AccessKey, Invitation, Requester, Worker

MAX_NAME_LENGTH = 100
INVITATION_LIFE = timedelta(days=14)


@dataclass(frozen=True)
class KeyPair:
    """An access key with its secret, which is shown once and stays out of logs."""

    id: str
    secret: str = field(repr=False)


def add_requester(session: Session, name: str, now: datetime) -> Requester:
    """Add a requester with an empty account; names are unique, ignoring case."""
    name = _name(name)
    for known in session.scalars(select(Requester.name)):
        if known.casefold() == name.casefold():
            raise EntityExists(
                "RequesterAlreadyExists", f"account {known} exists already; use this exact name, or choose another"
            )
    requester = Requester(id=person_id(), name=name, created_at=now)
    session.add(requester)
    session.flush()
    return requester


def find_requester(session: Session, name: str) -> Requester | None:
    """Return the requester of that name, or None."""
    return session.scalars(select(Requester).where(Requester.name == name)).one_or_none()


def add_key(session: Session, requester: Requester, now: datetime) -> KeyPair:
    """Add an access key to a requester."""
    pair = KeyPair(access_key_id(), access_secret())
    session.add(AccessKey(id=pair.id, secret=pair.secret, requester_id=requester.id, created_at=now))
    session.flush()
    return pair


def keys(session: Session, requester: Requester) -> list[AccessKey]:
    """Return the access keys of a requester, the oldest first."""
    mine = select(AccessKey).where(AccessKey.requester_id == requester.id)
    return list(session.scalars(mine.order_by(AccessKey.created_at, AccessKey.id)))


def revoke_key(session: Session, requester: Requester, key_id: str) -> None:
    """Delete an access key of a requester."""
    found = session.get(AccessKey, key_id)
    if found is None or found.requester_id != requester.id:
        raise AccessKeyNotFound(requester.name, key_id)
    session.delete(found)
    session.flush()


def deposit(session: Session, requester: Requester, cents: int, now: datetime) -> int:
    """Add money to what a requester can spend; return the new balance."""
    if cents <= 0:
        raise InvalidParameter("a deposit must be more than $0")
    money.move(session, money.DEPOSITS, money.available(requester.id), cents, "deposit", now)
    session.flush()
    return money.balance(session, money.available(requester.id))


def add_worker(session: Session, name: str, now: datetime, *, country: str = "", adult: bool = False) -> Worker:
    """Add a worker."""
    if country and not re.fullmatch("[A-Z]{2}", country):
        raise InvalidParameter(f"{country!r} is not a country code; use two capital letters such as US")
    worker = Worker(id=person_id(), name=_name(name), country=country, adult=adult, created_at=now)
    session.add(worker)
    session.flush()
    return worker


def create_link(session: Session, worker_id: str, now: datetime, life: timedelta = INVITATION_LIFE) -> str:
    """Create a sign-in link for a worker; return its token, of which only a hash is stored."""
    token = secrets.token_urlsafe(32)
    session.add(Invitation(token_hash=hash_token(token), worker_id=worker_id, made_at=now, expires_at=now + life))
    return token


def _name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidParameter(f"a name must have 1 to {MAX_NAME_LENGTH} printable characters")
    return name
