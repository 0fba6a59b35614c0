"""Use cases about archives: freeze closed rounds and verify archives."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from common.errors import Hint
from common.progress import Progress
from round_manager.archive.freeze import Frozen, freeze
from round_manager.archive.storage import Archives, opened_archive
from round_manager.archive.verification import Verification, verify
from round_manager.errors import ArchiveNotFound, RoundNotClosed
from round_manager.learning.training_data import closed_rounds
from round_manager.models import Round, Task
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import find_round
from round_manager.tasks.tasks import find_task


@dataclass(frozen=True)
class ArchiveVerified:
    """What the verification of an archive found; it is valid if there are no problems."""

    uri: str
    result: Verification


def freeze_round(
    context: ServiceContext,
    actor: Actor,
    task: str,
    archives: Archives,
    *,
    number: int | None = None,
    reason: str = "",
    move: bool = False,
    progress: Progress | None = None,
) -> Frozen:
    """Write the archive of a closed round, by default the newest, and fix its splits; safe to repeat.

    A frozen round gets an identical copy in another place, which becomes its own archive with `move`.
    """
    with context.store.read() as session:
        chosen = _closed_round(session, find_task(session, task), number)
    return freeze(
        context.store, chosen.id, archives, context.clock, actor=actor.name, reason=reason, move=move, progress=progress
    )


def unfrozen_rounds(context: ServiceContext, task: str) -> list[int]:
    """Return the numbers of the task's closed rounds without an archive."""
    with context.store.read() as session:
        return [one.number for one in closed_rounds(session, find_task(session, task)) if one.frozen_at is None]


def verify_archive(uri: str) -> ArchiveVerified:
    """Verify the archive in a folder or at s3://bucket/prefix, without a database."""
    with opened_archive(uri) as folder:
        return ArchiveVerified(uri, verify(folder))


def verify_round(context: ServiceContext, task: str, *, number: int | None = None) -> ArchiveVerified:
    """Verify the archive of a frozen round, by default the newest, and compare it with the database."""
    with context.store.read() as session:
        chosen = _closed_round(session, find_task(session, task), number)
        if chosen.archive_uri is None:
            hint = Hint("freeze_round", task=task, round=chosen.number)
            raise ArchiveNotFound(f"round {chosen.number} of {task} is not frozen yet", hint=hint)
        with opened_archive(chosen.archive_uri) as folder:
            return ArchiveVerified(chosen.archive_uri, verify(folder, database=(session, chosen)))


def _closed_round(session: Session, task: Task, number: int | None) -> Round:
    """Return the task's round of that number, by default the newest closed one."""
    if number:
        return find_round(session, task, number)
    closed = closed_rounds(session, task)
    if not closed:
        raise RoundNotClosed(f"{task.name} has no closed round yet", hint=Hint("close_round", task=task.name))
    return closed[-1]
