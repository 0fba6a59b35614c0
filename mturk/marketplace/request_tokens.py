"""Request tokens: a token that was used is refused for a day, so that a repeated call has no second effect."""

from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from mturk.marketplace.errors import DuplicateToken
from mturk.marketplace.tables.work import RequestToken

LIFE = timedelta(hours=24)


def find_result(session: Session, requester_id: str, operation: str, token: str | None, now: datetime) -> str | None:
    """Return the id of what the token created within the last day, or None if it was not used."""
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


def delete_expired(session: Session, now: datetime) -> None:
    """Delete tokens that were used more than a day ago."""
    session.execute(delete(RequestToken).where(RequestToken.used_at <= now - LIFE))


def record_use(
    session: Session, requester_id: str, operation: str, token: str | None, result_id: str, now: datetime
) -> None:
    """Record that a token was used, in the same transaction as what it created."""
    if token is not None:
        session.add(
            RequestToken(requester_id=requester_id, operation=operation, token=token, made=result_id, used_at=now)
        )


def refuse_reuse(session: Session, requester_id: str, operation: str, token: str | None, now: datetime) -> None:
    """Refuse a token that was used for this operation, with MTurk's message and the id of the earlier request."""
    request_id = find_result(session, requester_id, operation, token, now)
    if request_id is not None:
        raise DuplicateToken(
            "DuplicateRequest",
            f'The idempotency token "{token}" has already been processed. (request {request_id})',
        )
