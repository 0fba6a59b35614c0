"""Secrets in workers' hands: tokens of sign-in links, and submit passes. Only hashes of them are stored.

A submit pass belongs to one acceptance of an assignment: only with it can that work be submitted. When a worker returns
an assignment, its id stays the same, but the pass is revoked.
"""

import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from mturk.marketplace.tables.base import hash_token
from mturk.marketplace.tables.people import Invitation
from mturk.marketplace.tables.work import SubmitPass

INVITATION_LIFE = timedelta(days=14)


def create_link(session: Session, worker_id: str, now: datetime, life: timedelta = INVITATION_LIFE) -> str:
    """Create a sign-in link for a worker; return its token, which cannot be read again later."""
    token = secrets.token_urlsafe(32)
    session.add(Invitation(token_hash=hash_token(token), worker_id=worker_id, made_at=now, expires_at=now + life))
    return token


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
