"""How workers come in: links that work once, and logins that stay; only hashes of both are stored."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from mturk.marketplace.errors import MarketError
from mturk.marketplace.ids import hashed
from mturk.marketplace.site_tables import Invitation, Login
from mturk.marketplace.tables import Worker

INVITATION_LIFE = timedelta(days=14)
DEVICE_LINK_LIFE = timedelta(days=1)
LOGIN_LIFE = timedelta(days=90)
# A login that is in use is noted so often, not with every page.
NOTED_EVERY = timedelta(hours=1)
USED = "this link was used already; ask for another one"


class LinkRefused(MarketError):
    """A link that does not sign in anybody (any more)."""

    code = "link_refused"


class LinkUnknown(LinkRefused):
    """Nobody was given this link."""

    code = "link_unknown"


class LinkUsed(LinkRefused):
    """It worked once already."""

    code = "link_used"


class LinkExpired(LinkRefused):
    """It was not used in time."""

    code = "link_expired"


@dataclass(frozen=True)
class Guest:
    """Whom a link is for."""

    worker_id: str
    name: str


def invite(session: Session, worker_id: str, now: datetime, life: timedelta = INVITATION_LIFE) -> str:
    """The secret part of a new link for the worker; nobody can read it again later."""
    token = secrets.token_urlsafe(32)
    session.add(Invitation(token_hash=hashed(token), worker_id=worker_id, made_at=now, expires_at=now + life))
    return token


def guest(session: Session, token: str, now: datetime) -> Guest:
    """Whom the link is for, if it still signs them in."""
    found = session.scalar(select(Invitation).where(Invitation.token_hash == hashed(token)))
    if found is None:
        raise LinkUnknown("InvalidInvitation", "there is no such link; ask whoever runs this crowd for another one")
    if found.used_at is not None:
        raise LinkUsed("InvalidInvitation", USED)
    if found.expires_at <= now:
        raise LinkExpired("InvalidInvitation", "this link was not used in time; ask for another one")
    worker = session.get_one(Worker, found.worker_id)
    return Guest(worker.id, worker.name)


def join(session: Session, token: str, now: datetime) -> str:
    """Uses the link up; the secret of the new login, for the worker's browser to keep."""
    joining = guest(session, token, now)
    unused = (Invitation.token_hash == hashed(token), Invitation.used_at.is_(None))
    # Two that come at the same moment both saw it unused; the database lets one of them have it.
    if session.scalar(update(Invitation).where(*unused).values(used_at=now).returning(Invitation.number)) is None:
        raise LinkUsed("InvalidInvitation", USED)
    session.execute(delete(Login).where(Login.worker_id == joining.worker_id, Login.seen_at <= now - LOGIN_LIFE))
    kept = secrets.token_urlsafe(32)
    session.add(Login(token_hash=hashed(kept), worker_id=joining.worker_id, made_at=now, seen_at=now))
    return kept


def login(session: Session, token: str, now: datetime) -> Login | None:
    """The login of a browser, unless it was signed out or not used for too long."""
    found = session.scalar(select(Login).where(Login.token_hash == hashed(token)))
    return found if found and now - found.seen_at < LOGIN_LIFE else None


def note_use(session: Session, token: str, now: datetime) -> None:
    """The login was in use; one that was signed out meanwhile stays so."""
    session.execute(update(Login).where(Login.token_hash == hashed(token)).values(seen_at=now))


def sign_out(session: Session, token: str) -> None:
    """This browser is signed out."""
    session.execute(delete(Login).where(Login.token_hash == hashed(token)))


def sign_out_others(session: Session, token: str, worker_id: str) -> None:
    """Every other browser of the worker is signed out, and links that nobody used are void."""
    session.execute(delete(Login).where(Login.worker_id == worker_id, Login.token_hash != hashed(token)))
    session.execute(delete(Invitation).where(Invitation.worker_id == worker_id, Invitation.used_at.is_(None)))


def devices(session: Session, worker_id: str, now: datetime) -> int:
    """In how many browsers the worker is signed in."""
    counted = select(func.count()).where(Login.worker_id == worker_id, Login.seen_at > now - LOGIN_LIFE)
    return session.scalar(counted) or 0


def form_token(token: str) -> str:
    """What the forms of a login carry, so that no other site can send them; it tells nothing about the login."""
    return hashed(f"form {token}")


def work_secret(token: str, assignment_id: str, accepted_at: datetime) -> str:
    """What hands in the work of one acceptance from this login: the same however often its page is opened."""
    return hashed(f"work {assignment_id} {accepted_at.isoformat()} {token}")
