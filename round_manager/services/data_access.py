"""Access to a task's frozen rounds: with a token, or without one if the task is public."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from common.errors import Hint
from round_manager.audit import note
from round_manager.errors import DataRefused, DataTokenNotFound
from round_manager.models import DataToken, Round, Task
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task, list_tasks

PREFIX = "outfox-data"
NAME = re.compile(r"[a-z0-9_]{1,40}")
KEY_BYTES, SECRET_BYTES = 4, 32
REQUIRED = "a token is required: send it as `Authorization: Bearer TOKEN` or as `?token=TOKEN`"
NOT_VALID = "this token is not valid for this task; ask the task's owner for another one"
EXPIRED = "this token has expired or was revoked; ask the task's owner for a new one"


@dataclass(frozen=True)
class ListedToken:
    """A token with the name of its task; of its secret, only the hash is stored."""

    row: DataToken
    task: str

    def state(self, now: datetime) -> str:
        """Return `valid`, `expired` or `revoked`."""
        return "revoked" if self.row.revoked_at else "valid" if now < self.row.expires_at else "expired"


@dataclass(frozen=True)
class TokenCreated(ListedToken):
    """A new token with its secret, which cannot be shown again."""

    secret: str


@dataclass(frozen=True)
class TokenList:
    """The public tasks, and the tokens of one task or of all, newest last."""

    public: tuple[str, ...]
    tokens: tuple[ListedToken, ...]


@dataclass(frozen=True)
class ReadableTask:
    """A task that a client may read: its frozen rounds by number, whether it is public, and the token, if it is valid.

    Of the token there is its key, by which the owner refers to it.
    """

    name: str
    rounds: dict[int, Round]
    public: bool
    token: str = ""


def create_token(context: ServiceContext, actor: Actor, task: str, *, days: int, reason: str = "") -> TokenCreated:
    """Create a token that can read the task's frozen rounds for this many days."""
    key, now = secrets.token_hex(KEY_BYTES), context.now()
    secret = f"{PREFIX}-{key}-{secrets.token_urlsafe(SECRET_BYTES)}"
    with context.store.write() as session:
        row = DataToken(
            task_id=find_task(session, task).id,
            key=key,
            sha256=_hash(secret),
            note=reason.strip(),
            created_at=now,
            expires_at=now + timedelta(days=days),
        )
        session.add(row)
        session.flush()
        after = {"key": key, "days": days}
        note(session, "made", row, actor=actor.name, reason=reason, now=now, of=row, after=after)
    return TokenCreated(row, task, secret)


def list_tokens(context: ServiceContext, task: str | None = None) -> TokenList:
    """Return the tokens and the public tasks, of one task or of all."""
    with context.store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        found = _tokens().where(Task.id.in_([one.id for one in tasks])).order_by(DataToken.id)
        tokens = tuple(ListedToken(row, name) for row, name in session.execute(found))
    return TokenList(tuple(one.name for one in tasks if one.published_at), tokens)


def revoke_token(context: ServiceContext, actor: Actor, key: str, *, reason: str = "") -> ListedToken:
    """Revoke the token of that key at once; safe to repeat."""
    now = context.now()
    with context.store.write() as session:
        found = session.execute(_tokens().where(DataToken.key == key).with_for_update(of=DataToken)).one_or_none()
        if found is None:
            raise DataTokenNotFound(f"there is no token {key}", hint=Hint("list_data_tokens"))
        row, name = found
        if row.revoked_at is None:
            row.revoked_at = now
            note(session, "revoked", row, actor=actor.name, reason=reason, now=now, of=row, after={"key": key})
    return ListedToken(row, name)


def set_public(context: ServiceContext, actor: Actor, task: str, *, public: bool, reason: str = "") -> None:
    """Make a task's frozen rounds readable without a token, or only with one; safe to repeat."""
    now = context.now()
    with context.store.write() as session:
        row = find_task(session, task)
        if public != (row.published_at is not None):
            row.published_at = now if public else None
            action = "published" if public else "unpublished"
            note(session, action, row, actor=actor.name, reason=reason, now=now, of=row)


def read_task(context: ServiceContext, task: str, secret: str, *, key: str = "") -> ReadableTask:
    """Return the task's frozen rounds for a client with this token; raise DataRefused if it may not read them.

    A client that has shown its token before names it by its key. A private task and a missing one raise the same error.
    """
    with context.store.read() as session:
        owner, token = _named(session, task), None
        if owner is None or owner.published_at is None or secret or key:
            if not secret and not key:
                raise DataRefused(REQUIRED)
            try:
                owner, token = _valid_token(session, owner, secret, context.now(), key=key)
            except DataRefused:
                # A public task needs no token.
                if owner is None or owner.published_at is None:
                    raise
        rounds = {one.number: one for one in list_rounds(session, owner) if one.frozen_at}
        return ReadableTask(owner.name, rounds, owner.published_at is not None, token.key if token else "")


def find_token(context: ServiceContext, task: str, secret: str) -> ListedToken:
    """Return the token of a client of that task; raise DataRefused if it is not valid, also for a public task."""
    if not secret:
        raise DataRefused(REQUIRED)
    with context.store.read() as session:
        owner, token = _valid_token(session, _named(session, task), secret, context.now())
        return ListedToken(token, owner.name)


def _named(session: Session, task: str) -> Task | None:
    # Only valid names are looked up: a database may refuse to compare others.
    return session.scalar(select(Task).where(Task.name == task)) if NAME.fullmatch(task) else None


def _valid_token(
    session: Session, owner: Task | None, secret: str, now: datetime, *, key: str = ""
) -> tuple[Task, DataToken]:
    shown = DataToken.sha256 == _hash(secret) if secret else DataToken.key == key
    token = session.scalar(select(DataToken).where(shown))
    if owner is None or token is None or token.task_id != owner.id:
        raise DataRefused(NOT_VALID)
    if token.revoked_at is not None or now >= token.expires_at:
        raise DataRefused(EXPIRED)
    return owner, token


def _tokens() -> Select[DataToken, str]:
    return select(DataToken, Task.name).join(Task, Task.id == DataToken.task_id)


def _hash(token: str) -> str:
    # A fast hash is enough: 256 random bits cannot be guessed.
    return hashlib.sha256(token.encode()).hexdigest()
