"""Who may read a task's frozen rounds: whoever has a token of its owner's, or anybody where the task is public."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.audit import note
from round_manager.errors import DataAccessError, DataRefused
from round_manager.models import DataToken, Task

__all__ = ["ListedToken", "list_tokens", "make_token", "publish", "readable_task", "revoke_token", "unpublish"]

PREFIX = "outfox-data"
NAME = re.compile(r"[a-z0-9_]{1,40}")
KEY_BYTES, SECRET_BYTES = 4, 32
HOW = "send a token of the task's owner as `Authorization: Bearer TOKEN` or as `?token=TOKEN`"
WRONG = "this token does not open this task; ask its owner for another"
OVER = "this token is expired or revoked; ask the task's owner for a new one"


@dataclass(frozen=True)
class ListedToken:
    """What its owner sees of a token."""

    key: str
    task: str
    note: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None

    def state(self, now: datetime) -> str:
        """`valid`, `expired` or `revoked`."""
        return "revoked" if self.revoked_at else "valid" if now < self.expires_at else "expired"


def make_token(
    session: Session, task: Task, *, days: int, who: str, why: str, now: datetime
) -> tuple[ListedToken, str]:
    """A new token that opens the task's rounds, to be shown this once: only its hash is kept."""
    key = secrets.token_hex(KEY_BYTES)
    text = f"{PREFIX}-{key}-{secrets.token_urlsafe(SECRET_BYTES)}"
    row = DataToken(
        task_id=task.id,
        key=key,
        sha256=_hash(text),
        note=why.strip(),
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    session.add(row)
    session.flush()
    note(session, "made", row, who=who, why=why, now=now, of=row, after={"key": key, "days": days})
    return _listed(row, task.name), text


def list_tokens(session: Session, task: Task | None = None) -> list[ListedToken]:
    """Every token, of one task or of all, the newest last."""
    found = select(DataToken, Task.name).join(Task, Task.id == DataToken.task_id).order_by(DataToken.id)
    if task is not None:
        found = found.where(DataToken.task_id == task.id)
    return [_listed(row, name) for row, name in session.execute(found)]


def revoke_token(session: Session, key: str, *, who: str, why: str, now: datetime) -> ListedToken:
    """The token of that key opens nothing from now on; safe to run again."""
    found = select(DataToken, Task.name).join(Task, Task.id == DataToken.task_id).where(DataToken.key == key)
    row = session.execute(found.with_for_update(of=DataToken)).one_or_none()
    if row is None:
        raise DataAccessError(f"there is no token {key}; `outfox data list` lists them")
    token, name = row
    if token.revoked_at is None:
        token.revoked_at = now
        note(session, "revoked", token, who=who, why=why, now=now, of=token, after={"key": key})
    return _listed(token, name)


def publish(session: Session, task: Task, *, who: str, why: str, now: datetime) -> None:
    """Anybody may read the task's frozen rounds."""
    if task.published_at is None:
        task.published_at = now
        note(session, "published", task, who=who, why=why, now=now, of=task)


def unpublish(session: Session, task: Task, *, who: str, why: str, now: datetime) -> None:
    """Only tokens open the task's frozen rounds."""
    if task.published_at is not None:
        task.published_at = None
        note(session, "unpublished", task, who=who, why=why, now=now, of=task)


def readable_task(session: Session, name: str, token: str, *, now: datetime) -> Task:
    """The task, for whoever may read it; a stranger cannot tell a private task from one that is not there."""
    # What is no name at all is not asked for: a database may refuse to compare it.
    task = session.scalar(select(Task).where(Task.name == name)) if NAME.fullmatch(name) else None
    if task is not None and task.published_at is not None:
        return task
    if not token:
        raise DataRefused(HOW)
    known = session.scalar(select(DataToken).where(DataToken.sha256 == _hash(token)))
    if known is None or task is None or known.task_id != task.id:
        raise DataRefused(WRONG)
    if known.revoked_at is not None or now >= known.expires_at:
        raise DataRefused(OVER)
    return task


def _hash(token: str) -> str:
    # Not a slow hash: nobody can guess 256 random bits.
    return hashlib.sha256(token.encode()).hexdigest()


def _listed(row: DataToken, task: str) -> ListedToken:
    return ListedToken(row.key, task, row.note, row.created_at, row.expires_at, row.revoked_at)
