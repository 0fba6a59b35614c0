"""Sign-in links, logins and submit passes of workers. Only hashes of the secrets are stored.

A submit pass belongs to one acceptance of an assignment: only with it can that work be submitted. When a worker returns
an assignment, its id stays the same, but the pass is revoked.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from mturk.marketplace.errors import LinkExpired, LinkNotFound, LinkUsed
from mturk.marketplace.tables.base import hash_token
from mturk.marketplace.tables.people import Invitation, Login, Worker
from mturk.marketplace.tables.work import SubmitPass

INVITATION_LIFE = timedelta(days=14)
DEVICE_LINK_LIFE = timedelta(days=1)
LOGIN_LIFE = timedelta(days=90)
# The use of a login is recorded at most this often, not with every page.
LOGIN_USE_INTERVAL = timedelta(hours=1)
LINK_USED = "this link was used already; ask for another one"


@dataclass(frozen=True)
class LinkOwner:
    """The worker whom a link signs in."""

    worker_id: str
    name: str


def create_link(session: Session, worker_id: str, now: datetime, life: timedelta = INVITATION_LIFE) -> str:
    """Create a sign-in link for a worker; return its token, which cannot be read again later."""
    token = secrets.token_urlsafe(32)
    session.add(Invitation(token_hash=hash_token(token), worker_id=worker_id, made_at=now, expires_at=now + life))
    return token


def read_link(session: Session, token: str, now: datetime) -> LinkOwner:
    """Return the worker of a link that still works."""
    found = session.scalar(select(Invitation).where(Invitation.token_hash == hash_token(token)))
    if found is None:
        raise LinkNotFound("there is no such link; ask the person who runs this crowd for another one")
    if found.used_at is not None:
        raise LinkUsed(LINK_USED)
    if found.expires_at <= now:
        raise LinkExpired("this link has expired; ask for another one")
    worker = session.get_one(Worker, found.worker_id)
    return LinkOwner(worker.id, worker.name)


def use_link(session: Session, token: str, now: datetime) -> str:
    """Use up a link; return the token of a new login for the worker's browser."""
    owner = read_link(session, token, now)
    unused = (Invitation.token_hash == hash_token(token), Invitation.used_at.is_(None))
    # Two requests at the same moment may both have seen it unused; the database lets one of them use it.
    if session.scalar(update(Invitation).where(*unused).values(used_at=now).returning(Invitation.number)) is None:
        raise LinkUsed(LINK_USED)
    session.execute(delete(Login).where(Login.worker_id == owner.worker_id, Login.seen_at <= now - LOGIN_LIFE))
    login_token = secrets.token_urlsafe(32)
    login = Login(token_hash=hash_token(login_token), worker_id=owner.worker_id, made_at=now, seen_at=now)
    session.add(login)
    return login_token


def find_login(session: Session, token: str, now: datetime) -> Login | None:
    """Return the login of a browser, or None if it was signed out or has expired."""
    found = session.scalar(select(Login).where(Login.token_hash == hash_token(token)))
    return found if found and now - found.seen_at < LOGIN_LIFE else None


def record_login_use(session: Session, token: str, now: datetime) -> None:
    """Record that a login was used; one that was signed out meanwhile stays signed out."""
    session.execute(update(Login).where(Login.token_hash == hash_token(token)).values(seen_at=now))


def sign_out(session: Session, token: str) -> None:
    """Sign this browser out."""
    session.execute(delete(Login).where(Login.token_hash == hash_token(token)))


def sign_out_others(session: Session, token: str, worker_id: str) -> None:
    """Sign out all other browsers of the worker, and revoke unused links."""
    session.execute(delete(Login).where(Login.worker_id == worker_id, Login.token_hash != hash_token(token)))
    session.execute(delete(Invitation).where(Invitation.worker_id == worker_id, Invitation.used_at.is_(None)))


def count_devices(session: Session, worker_id: str, now: datetime) -> int:
    """Return the number of browsers in which the worker is signed in."""
    counted = select(func.count()).where(Login.worker_id == worker_id, Login.seen_at > now - LOGIN_LIFE)
    return session.scalar(counted) or 0


def csrf_token(login_token: str) -> str:
    """Return the CSRF token of a login's forms; it reveals nothing about the login."""
    return hash_token(f"form {login_token}")


def submit_secret(login_token: str, assignment_id: str, accepted_at: datetime) -> str:
    """Return the secret that submits one acceptance from this login, the same each time its page is opened."""
    return hash_token(f"work {assignment_id} {accepted_at.isoformat()} {login_token}")


def issue_submit_pass(session: Session, assignment_id: str, secret: str) -> None:
    """Let the holder of this secret submit the current acceptance of the assignment."""
    session.merge(SubmitPass(token_hash=hash_token(secret), assignment_id=assignment_id))
    session.flush()


def assignment_of_submit_pass(session: Session, secret: str) -> str | None:
    """Return the assignment that the secret submits, or None after it was returned or its time ran out."""
    return session.scalar(select(SubmitPass.assignment_id).where(SubmitPass.token_hash == hash_token(secret)))


def revoke_submit_passes(session: Session, assignment_id: str) -> None:
    """Revoke all passes of an assignment."""
    session.execute(delete(SubmitPass).where(SubmitPass.assignment_id == assignment_id))
