"""Use cases of workers: list, qualify, block and message them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.progress import NoProgress, Progress
from crowd.port import UndeliveredMessage
from crowd.profile import CrowdLimits
from round_manager.audit import note
from round_manager.crowd import workers
from round_manager.crowd.workers import WorkerFigures, grant_passed_quizzes, worker_figures
from round_manager.errors import CrowdWorkError
from round_manager.models import Task, ensure_worker
from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext
from round_manager.tasks.tasks import find_task, list_tasks
from round_manager.work.quizzes import ungranted_passes


@dataclass(frozen=True)
class WorkerPage:
    """A page of workers, and how many there are in all."""

    workers: list[WorkerFigures]
    total: int


def list_workers(
    context: ServiceContext, marketplace: str, *, task: str | None = None, offset: int = 0, limit: int | None = None
) -> WorkerPage:
    """Return workers who worked on a task or on any task, may work, or are blocked; the latest submission first."""
    with context.store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        found = worker_figures(session, marketplace, tasks)
    return WorkerPage(found[offset : None if limit is None else offset + limit], len(found))


def workers_of_task(context: ServiceContext, crowd: ConnectedCrowd, task: str) -> tuple[str, ...]:
    """Return the ids of the workers who worked on a task or may work on it."""
    found = list_workers(context, crowd.name, task=task).workers
    return tuple(one.worker_id for one in found if one.last_work_at or one.qualified_for)


def grant_qualification(
    context: ServiceContext,
    actor: Actor,
    crowd: ConnectedCrowd,
    task: str,
    worker_ids: Sequence[str],
    *,
    reason: str = "",
    progress: Progress | None = None,
) -> None:
    """Grant a task's qualification to workers; repeating the call changes nothing."""
    shown, found = progress or NoProgress(), _task(context, task)
    shown.start(len(worker_ids), "granting")
    for worker in worker_ids:
        crowd.access.grant(found, worker, actor=actor.name, reason=reason)
        shown.advance()
    shown.finish()


def withdraw_qualification(
    context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, task: str, worker_ids: Sequence[str], *, reason: str
) -> None:
    """Withdraw a task's qualification from workers, with a reason that they read."""
    found = _task(context, task)
    for worker in worker_ids:
        crowd.access.withdraw(found, worker, actor=actor.name, reason=reason)


def mark_simulated(context: ServiceContext, actor: Actor, marketplace: str, names: Mapping[str, str]) -> None:
    """Name workers by their ids and mark them as programs, before their first work; safe to repeat."""
    with context.store.write() as session:
        for worker_id, name in names.items():
            worker = ensure_worker(session, marketplace, worker_id, now=context.now())
            if not worker.simulated:
                worker.simulated, worker.name = True, name
                session.flush()
                note(
                    session,
                    "marked as simulated",
                    worker,
                    actor=actor.name,
                    reason="a program in place of a person",
                    now=context.now(),
                )


def check_task(context: ServiceContext, task: str) -> None:
    """Raise TaskNotFound if there is no such task."""
    _task(context, task)


def qualify_passed(context: ServiceContext, crowd: ConnectedCrowd) -> int:
    """Grant the qualification to all workers who passed a quiz; return how many."""
    return grant_passed_quizzes(context.store, crowd.name, lambda: crowd.access)


def ungranted_quizzes(context: ServiceContext, crowd: ConnectedCrowd) -> int:
    """Return how many workers passed a quiz and do not have the qualification yet."""
    with context.store.read() as session:
        return len(ungranted_passes(session, crowd.name))


def is_blocked(context: ServiceContext, crowd: ConnectedCrowd, worker_id: str) -> bool:
    """Return whether a worker is blocked."""
    with context.store.read() as session:
        return workers.is_blocked(session, crowd.name, worker_id)


def block_worker(actor: Actor, crowd: ConnectedCrowd, worker_id: str, *, reason: str) -> None:
    """Block a worker from all tasks; submitted work is still paid."""
    crowd.access.block(worker_id, actor=actor.name, reason=reason)


def unblock_worker(actor: Actor, crowd: ConnectedCrowd, worker_id: str, *, reason: str = "") -> None:
    """Lift a worker's block."""
    crowd.access.unblock(worker_id, actor=actor.name, reason=reason)


def check_message(limits: CrowdLimits, subject: str, text: str) -> None:
    """Raise an error if a message is empty or longer than the crowd allows."""
    longest_subject, longest_text = limits.message_subject_length, limits.message_text_length
    if not 0 < len(subject.strip()) <= len(subject) <= longest_subject or not text.strip() or len(text) > longest_text:
        raise CrowdWorkError(
            f"a message needs a subject of 1 to {longest_subject} characters and a text of 1 to {longest_text}"
        )


def message_workers(
    actor: Actor, crowd: ConnectedCrowd, worker_ids: Sequence[str], subject: str, text: str
) -> list[UndeliveredMessage]:
    """Send a message to workers; return the messages that were not delivered."""
    check_message(crowd.crowd.profile.limits, subject, text)
    return crowd.crowd.notify(worker_ids, subject, text)


def _task(context: ServiceContext, name: str) -> Task:
    with context.store.read() as session:
        return find_task(session, name)
