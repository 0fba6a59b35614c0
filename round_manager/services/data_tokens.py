"""Use cases about access to frozen rounds: create, list and revoke tokens, and make a task public or private."""

from dataclasses import dataclass
from datetime import datetime

from round_manager.models import Round
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks import data_access
from round_manager.tasks.data_access import ListedToken
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task, list_tasks


@dataclass(frozen=True)
class TokenCreated:
    """A new token with its secret, which cannot be shown again."""

    token: ListedToken
    secret: str


@dataclass(frozen=True)
class TokenList:
    """The public tasks, and the tokens of one task or of all, as of `at`."""

    public: tuple[str, ...]
    tokens: tuple[ListedToken, ...]
    at: datetime


@dataclass(frozen=True)
class ReadableTask:
    """A task that a client may read: its frozen rounds by number, and whether it is public."""

    name: str
    rounds: dict[int, Round]
    public: bool


def create_token(context: ServiceContext, actor: Actor, task: str, *, days: int, reason: str = "") -> TokenCreated:
    """Create a token that can read the task's frozen rounds for this many days."""
    with context.store.write() as session:
        owner = find_task(session, task)
        token, secret = data_access.make_token(
            session, owner, days=days, actor=actor.name, reason=reason, now=context.now()
        )
    return TokenCreated(token, secret)


def list_tokens(context: ServiceContext, task: str | None = None) -> TokenList:
    """Return the tokens and the public tasks, of one task or of all."""
    with context.store.read() as session:
        owner = find_task(session, task) if task else None
        public = tuple(one.name for one in ([owner] if owner else list_tasks(session)) if one.published_at)
        return TokenList(public, tuple(data_access.list_tokens(session, owner)), context.now())


def revoke_token(context: ServiceContext, actor: Actor, key: str, *, reason: str = "") -> ListedToken:
    """Revoke a token at once; safe to repeat."""
    with context.store.write() as session:
        return data_access.revoke_token(session, key, actor=actor.name, reason=reason, now=context.now())


def publish_task(context: ServiceContext, actor: Actor, task: str, *, reason: str = "") -> None:
    """Make a task's frozen rounds readable without a token."""
    with context.store.write() as session:
        data_access.publish(session, find_task(session, task), actor=actor.name, reason=reason, now=context.now())


def unpublish_task(context: ServiceContext, actor: Actor, task: str, *, reason: str = "") -> None:
    """Make a task's frozen rounds readable with a token only."""
    with context.store.write() as session:
        data_access.unpublish(session, find_task(session, task), actor=actor.name, reason=reason, now=context.now())


def read_task(context: ServiceContext, task: str, secret: str) -> ReadableTask:
    """Return the task's frozen rounds for a client with this token; raise DataRefused if it may not read them."""
    with context.store.read() as session:
        owner = data_access.readable_task(session, task, secret, now=context.now())
        rounds = {one.number: one for one in list_rounds(session, owner) if one.frozen_at}
        return ReadableTask(owner.name, rounds, owner.published_at is not None)
