"""Sign-in of workers: links that sign in once, logins of browsers, and who is visiting."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from mturk.marketplace import people, worker_actions
from mturk.marketplace.errors import LinkExpired, LinkNotFound, LinkUsed
from mturk.marketplace.market import Market
from mturk.marketplace.tables.base import hash_token
from mturk.marketplace.tables.people import Invitation, Login, Message, Worker

DEVICE_LINK_LIFE = timedelta(days=1)
LOGIN_LIFE = timedelta(days=90)
# The use of a login is recorded at most this often, not with every page.
LOGIN_USE_INTERVAL = timedelta(hours=1)


@dataclass(frozen=True)
class Visitor:
    """A signed-in worker, with what the header of every page shows; `renewed` if this use extended the login."""

    worker_id: str
    name: str
    country: str
    csrf: str
    keeps_going: bool
    held: int
    unread: int
    renewed: bool


def find_visitor(market: Market, login_token: str) -> Visitor | None:
    """Return the worker of a login, or None if it was signed out or has expired; record that it is in use."""
    now = market.now()
    with market.read() as session:
        login = _find_login(session, login_token, market)
        if login is None:
            return None
        worker = session.get_one(Worker, login.worker_id)
        unread = select(func.count()).where(Message.worker_id == worker.id, Message.read_at.is_(None))
        visitor = Visitor(
            worker_id=worker.id,
            name=worker.name,
            country=worker.country,
            csrf=hash_token(f"form {login_token}"),
            keeps_going=login.keeps_going,
            held=len(worker_actions.held_assignments(session, worker, now)),
            unread=session.scalar(unread) or 0,
            renewed=now - login.seen_at > LOGIN_USE_INTERVAL,
        )
    if visitor.renewed:
        with market.write() as session:
            # An update, so that a login that was signed out meanwhile stays signed out.
            session.execute(update(Login).where(Login.token_hash == hash_token(login_token)).values(seen_at=now))
    return visitor


def link_owner_name(market: Market, token: str) -> str:
    """Return the name of the worker whom a link signs in; the link stays unused."""
    with market.glance() as session:
        return _link_owner(session, token, market).name


def sign_in(market: Market, token: str, previous_login: str = "") -> str:
    """Use up a link and end the browser's previous login; return the token of the new login."""
    now = market.now()
    with market.write() as session:
        if previous_login:
            session.execute(delete(Login).where(Login.token_hash == hash_token(previous_login)))
        worker = _link_owner(session, token, market)
        unused = (Invitation.token_hash == hash_token(token), Invitation.used_at.is_(None))
        # Two requests at the same moment may both have seen it unused; the database lets one of them use it.
        if session.scalar(update(Invitation).where(*unused).values(used_at=now).returning(Invitation.number)) is None:
            raise LinkUsed
        session.execute(delete(Login).where(Login.worker_id == worker.id, Login.seen_at <= now - LOGIN_LIFE))
        login_token = secrets.token_urlsafe(32)
        session.add(Login(token_hash=hash_token(login_token), worker_id=worker.id, made_at=now, seen_at=now))
    return login_token


def sign_out(market: Market, login_token: str) -> None:
    """Sign this browser out."""
    with market.write() as session:
        session.execute(delete(Login).where(Login.token_hash == hash_token(login_token)))


def sign_out_others(market: Market, login_token: str, worker_id: str) -> None:
    """Sign out all other browsers of the worker, and revoke unused links."""
    with market.write() as session:
        session.execute(delete(Login).where(Login.worker_id == worker_id, Login.token_hash != hash_token(login_token)))
        session.execute(delete(Invitation).where(Invitation.worker_id == worker_id, Invitation.used_at.is_(None)))


def create_device_link(market: Market, worker_id: str) -> str:
    """Create a link that signs the worker in on another device; return its token."""
    with market.write() as session:
        return people.create_link(session, worker_id, market.now(), DEVICE_LINK_LIFE)


def count_devices(market: Market, worker_id: str) -> int:
    """Return the number of browsers in which the worker is signed in."""
    counted = select(func.count()).where(Login.worker_id == worker_id, Login.seen_at > market.now() - LOGIN_LIFE)
    with market.glance() as session:
        return session.scalar(counted) or 0


def set_keeps_going(market: Market, login_token: str, *, keeps_going: bool) -> None:
    """Store whether this browser accepts the next task after one is submitted."""
    with market.write() as session:
        login = _find_login(session, login_token, market)
        if login:
            login.keeps_going = keeps_going


def _find_login(session: Session, token: str, market: Market) -> Login | None:
    found = session.scalar(select(Login).where(Login.token_hash == hash_token(token)))
    return found if found and market.now() - found.seen_at < LOGIN_LIFE else None


def _link_owner(session: Session, token: str, market: Market) -> Worker:
    found = session.scalar(select(Invitation).where(Invitation.token_hash == hash_token(token)))
    if found is None:
        raise LinkNotFound
    if found.used_at is not None:
        raise LinkUsed
    if found.expires_at <= market.now():
        raise LinkExpired
    return session.get_one(Worker, found.worker_id)
