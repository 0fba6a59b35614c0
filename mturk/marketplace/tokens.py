"""Request tokens: what was done with one is not done again for a day."""

from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from mturk.marketplace.errors import DuplicateToken
from mturk.marketplace.tables import RequestToken

LIFE = timedelta(hours=24)


def find(session: Session, requester_id: str, operation: str, token: str | None, now: datetime) -> str | None:
    """What the token made within the last day, if it was used."""
    if token is None:
        return None
    used = session.get(RequestToken, (requester_id, operation, token))
    if used is None:
        return None
    if used.used_at <= now - LIFE:
        session.delete(used)
        session.flush()
        return None
    return used.made


def forget(session: Session, now: datetime) -> None:
    """Tokens that protect nothing any more are gone."""
    session.execute(delete(RequestToken).where(RequestToken.used_at <= now - LIFE))


def remember(session: Session, requester_id: str, operation: str, token: str | None, made: str, now: datetime) -> None:
    """The token is used; in the same transaction as what it made."""
    if token is not None:
        session.add(RequestToken(requester_id=requester_id, operation=operation, token=token, made=made, used_at=now))


def refuse_repeat(session: Session, requester_id: str, operation: str, token: str | None, now: datetime) -> None:
    """A token that was used for this operation is refused in MTurk's words, with the request that used it."""
    request_id = find(session, requester_id, operation, token, now)
    if request_id is not None:
        raise DuplicateToken(
            "DuplicateRequest",
            f'The idempotency token "{token}" has already been processed. (request {request_id})',
        )
