"""Access to a task's frozen rounds: with a token, or without one if the task is public."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import Hint
from round_manager.audit import note
from round_manager.errors import DataRefused, DataTokenNotFound
from round_manager.models import DataToken, Task

PREFIX = "outfox-data"
NAME = re.compile(r"[a-z0-9_]{1,40}")
KEY_BYTES, SECRET_BYTES = 4, 32
REQUIRED = "a token is required: send it as `Authorization: Bearer TOKEN` or as `?token=TOKEN`"
NOT_VALID = "this token is not valid for this task; ask the task's owner for another one"
EXPIRED = "this token has expired or was revoked; ask the task's owner for a new one"


@dataclass(frozen=True)
class ListedToken:
    """A token as its owner sees it, without its secret."""

    key: str
    task: str
    note: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None

    def state(self, now: datetime) -> str:
        """Return `valid`, `expired` or `revoked`."""
        return "revoked" if self.revoked_at else "valid" if now < self.expires_at else "expired"


def make_token(
    session: Session, task: Task, *, days: int, actor: str, reason: str, now: datetime
) -> tuple[ListedToken, str]:
    """Create a token for the task's frozen rounds and return it with its secret, of which only the hash is stored."""
    key = secrets.token_hex(KEY_BYTES)
    text = f"{PREFIX}-{key}-{secrets.token_urlsafe(SECRET_BYTES)}"
    row = DataToken(
        task_id=task.id,
        key=key,
        sha256=_hash(text),
        note=reason.strip(),
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    session.add(row)
    session.flush()
    note(session, "made", row, actor=actor, reason=reason, now=now, of=row, after={"key": key, "days": days})
    return _listed(row, task.name), text


def list_tokens(session: Session, task: Task | None = None) -> list[ListedToken]:
    """Return the tokens of one task or of all tasks, newest last."""
    found = select(DataToken, Task.name).join(Task, Task.id == DataToken.task_id).order_by(DataToken.id)
    if task is not None:
        found = found.where(DataToken.task_id == task.id)
    return [_listed(row, name) for row, name in session.execute(found)]


def revoke_token(session: Session, key: str, *, actor: str, reason: str, now: datetime) -> ListedToken:
    """Revoke the token of that key; safe to repeat."""
    found = select(DataToken, Task.name).join(Task, Task.id == DataToken.task_id).where(DataToken.key == key)
    row = session.execute(found.with_for_update(of=DataToken)).one_or_none()
    if row is None:
        raise DataTokenNotFound(f"there is no token {key}", hint=Hint("list_data_tokens"))
    token, name = row
    if token.revoked_at is None:
        token.revoked_at = now
        note(session, "revoked", token, actor=actor, reason=reason, now=now, of=token, after={"key": key})
    return _listed(token, name)


def publish(session: Session, task: Task, *, actor: str, reason: str, now: datetime) -> None:
    """Make the task's frozen rounds readable without a token."""
    if task.published_at is None:
        task.published_at = now
        note(session, "published", task, actor=actor, reason=reason, now=now, of=task)


def unpublish(session: Session, task: Task, *, actor: str, reason: str, now: datetime) -> None:
    """Make the task's frozen rounds readable with a token only."""
    if task.published_at is not None:
        task.published_at = None
        note(session, "unpublished", task, actor=actor, reason=reason, now=now, of=task)


def readable_task(session: Session, name: str, token: str, *, now: datetime) -> Task:
    """Return the task if the token may read it; a private task and a missing one raise the same error."""
    # Only valid names are looked up: a database may refuse to compare others.
    task = session.scalar(select(Task).where(Task.name == name)) if NAME.fullmatch(name) else None
    if task is not None and task.published_at is not None:
        return task
    if not token:
        raise DataRefused(REQUIRED)
    known = session.scalar(select(DataToken).where(DataToken.sha256 == _hash(token)))
    if known is None or task is None or known.task_id != task.id:
        raise DataRefused(NOT_VALID)
    if known.revoked_at is not None or now >= known.expires_at:
        raise DataRefused(EXPIRED)
    return task


def _hash(token: str) -> str:
    # A fast hash is enough: 256 random bits cannot be guessed.
    return hashlib.sha256(token.encode()).hexdigest()


def _listed(row: DataToken, task: str) -> ListedToken:
    return ListedToken(row.key, task, row.note, row.created_at, row.expires_at, row.revoked_at)
