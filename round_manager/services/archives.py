"""Use cases about archives: freeze closed rounds and verify archives."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import Hint
from common.progress import Progress
from round_manager.archive.freeze import Frozen, freeze, newest_closed
from round_manager.archive.recount import ArchivedVote, Counted, VoteCount
from round_manager.archive.storage import Archives, opened_archive
from round_manager.archive.verification import Verification, verify
from round_manager.errors import ArchiveNotFound
from round_manager.models import Round, RoundStatus
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import find_round, list_rounds
from round_manager.tasks.tasks import find_task
from round_manager.validation.outcomes import VoteCounter, VoteValue
from templates import TaskSpec


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
        owner = find_task(session, task)
        chosen = find_round(session, owner, number) if number else newest_closed(session, owner)
    return freeze(
        context.store, chosen.id, archives, context.clock, who=actor.name, why=reason, move=move, progress=progress
    )


def unfrozen_rounds(context: ServiceContext, task: str) -> list[int]:
    """Return the numbers of the task's closed rounds without an archive."""
    return [one.number for one in _rounds(context, task) if one.status is RoundStatus.CLOSED and one.frozen_at is None]


def verify_archive(uri: str) -> ArchiveVerified:
    """Verify the archive in a folder or at s3://bucket/prefix, without a database."""
    with opened_archive(uri) as folder:
        return ArchiveVerified(uri, verify(folder, counting=counting))


def verify_round(context: ServiceContext, task: str, *, number: int | None = None) -> ArchiveVerified:
    """Verify the archive of a frozen round, by default the newest, and compare it with the database."""
    with context.store.read() as session:
        owner = find_task(session, task)
        chosen = find_round(session, owner, number) if number else newest_closed(session, owner)
        if chosen.archive_uri is None:
            hint = Hint("freeze_round", task=task, round=chosen.number)
            raise ArchiveNotFound(f"round {chosen.number} of {task} is not frozen yet", hint=hint)
        with opened_archive(chosen.archive_uri) as folder:
            return ArchiveVerified(chosen.archive_uri, verify(folder, counting=counting, database=(session, chosen)))


def counting(spec: TaskSpec) -> VoteCount:
    """Return how a round with this spec counts votes; raise PolicyError if its policy is unknown here."""
    counter = VoteCounter(spec)
    # Looked up now, so that an unknown policy is reported before the first example.
    counter.policy  # noqa: B018

    def count(author: ArchivedVote, votes: Sequence[ArchivedVote]) -> Counted:
        values = [VoteValue(vote.label, _answer(vote), vote.flag) for vote in votes]
        outcome = counter.outcome(author.label, _answer(author), values)
        answer = outcome.gold_answer or {}
        return Counted(outcome.status, ArchivedVote(outcome.gold_label, answer.get("text"), answer.get("start")))

    return count


def _answer(vote: ArchivedVote) -> dict[str, object] | None:
    return None if vote.answer is None else {"text": vote.answer, "start": vote.start}


def _rounds(context: ServiceContext, task: str) -> list[Round]:
    with context.store.read() as session:
        return list_rounds(session, find_task(session, task))
