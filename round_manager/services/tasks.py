"""Use cases about tasks: create one from a pack, upload contexts, and see where tasks and their rounds stand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from round_manager.loop import lifecycle
from round_manager.loop.manager_record import last_pass, problem_steps
from round_manager.loop.overview import TaskOverview, missing_intake, round_warnings, task_overview
from round_manager.loop.waiting import WaitReason, waiting
from round_manager.models import AuditEntry, ManagerStep, Round, Task, spec_of
from round_manager.money.budget import BudgetFigures, figures
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks import contexts, rounds, tasks
from round_manager.tasks.contexts import ContextUse, count_contexts
from round_manager.tasks.tasks import find_task
from round_manager.work import context_uploads
from round_manager.work.context_uploads import ContextsUploaded
from templates import Pack, TaskSpec
from templates.rows import Context


@dataclass(frozen=True)
class TaskSummary:
    """A task, its newest round and the number of its contexts."""

    task: Task
    round: Round
    contexts: int


@dataclass(frozen=True)
class RoundSummary:
    """A round, the versions that it plays against, and what was collected in it."""

    round: Round
    versions: tuple[str, ...]
    collected: rounds.Collected


@dataclass(frozen=True)
class RoundDetails(RoundSummary):
    """A round with its money, its due move, its history and what it waits for."""

    money: BudgetFigures
    due: lifecycle.Due | None
    waits_for: tuple[WaitReason, ...]
    history: Sequence[AuditEntry]
    warnings: tuple[WaitReason, ...] = ()


@dataclass(frozen=True)
class TaskDetails:
    """A task with all of its rounds."""

    task: Task
    contexts: int
    rounds: tuple[RoundSummary, ...]


@dataclass(frozen=True)
class Overview:
    """Where the tasks stand, the last complete pass of a manager, and its steps that fail or wait."""

    tasks: tuple[TaskOverview, ...]
    last_pass: ManagerStep | None
    problems: Sequence[ManagerStep]


def create_task(context: ServiceContext, actor: Actor, pack: Pack) -> TaskSummary:
    """Create the task of a checked pack, or update it; safe to repeat."""
    with context.store.write() as session:
        return _summary(session, tasks.create_task(session, pack, actor=actor.name, now=context.now()))


def list_tasks(context: ServiceContext) -> list[TaskSummary]:
    """Return every task by name."""
    with context.store.read() as session:
        return [_summary(session, task) for task in tasks.list_tasks(session)]


def live_tasks(context: ServiceContext) -> list[str]:
    """Return the names of all tasks that are not archived."""
    with context.store.read() as session:
        return [task.name for task in tasks.list_tasks(session) if task.archived_at is None]


def task_folder(context: ServiceContext, name: str) -> Path:
    """Return the folder of the pack that the task was created from; it may be gone."""
    with context.store.read() as session:
        return Path(find_task(session, name).folder)


def task_folders(context: ServiceContext) -> dict[str, Path]:
    """Return the same of every task, by name."""
    with context.store.read() as session:
        return {task.name: Path(task.folder) for task in tasks.list_tasks(session)}


def show_task(context: ServiceContext, name: str) -> TaskDetails:
    """Return a task with its rounds."""
    with context.store.read() as session:
        task = find_task(session, name)
        return TaskDetails(task, count_contexts(session, task.id), tuple(_rounds(session, task)))


def list_rounds(context: ServiceContext, task: str) -> list[RoundSummary]:
    """Return the task's rounds, oldest first."""
    with context.store.read() as session:
        return _rounds(session, find_task(session, task))


def show_round(context: ServiceContext, task: str, number: int | None = None, *, has_marketplace: bool) -> RoundDetails:
    """Return a round in detail; by default the live one, else the newest."""
    now = context.now()
    with context.store.read() as session:
        round = rounds.choose_round(session, find_task(session, task), number)
        intake = missing_intake(session, round, has_marketplace=has_marketplace)
        return RoundDetails(
            round,
            rounds.pinned_versions(session, round),
            rounds.collected(session, round),
            money=figures(session, round),
            due=lifecycle.due(session, round, now=now),
            waits_for=(*waiting(session, round, now=now), *([intake] if intake else [])),
            history=lifecycle.history(session, round),
            warnings=tuple(round_warnings(session, round, has_marketplace=has_marketplace)),
        )


def show_overview(context: ServiceContext, task: str | None = None, *, has_marketplace: bool) -> Overview:
    """Return where one task or every task stands; `has_marketplace` says whether the caller can post HITs."""
    now = context.now()
    with context.store.read() as session:
        chosen = [find_task(session, task)] if task else tasks.list_tasks(session)
        found = tuple(task_overview(session, one, now=now, has_marketplace=has_marketplace) for one in chosen)
        return Overview(found, last_pass(session), problem_steps(session, task))


# Reads the rows of a file for a spec; it is read twice, and raises PackError with all of its mistakes.
ContextReader = Callable[[TaskSpec], Iterable[Context]]


@dataclass(frozen=True)
class ContextList:
    """The first contexts of a task, and how many there are in total."""

    total: int
    contexts: tuple[ContextUse, ...]


def upload_contexts(
    context: ServiceContext,
    actor: Actor,
    task: str,
    read: ContextReader,
    *,
    replace: bool = False,
    reason: str = "",
    dry_run: bool = False,
) -> ContextsUploaded:
    """Add contexts in one transaction: all of them, or none and an error; safe to repeat.

    With `replace`, all other contexts are retired. With `dry_run`, the changes are rolled back.
    """
    store = context.store
    with store.read() as session:
        spec = spec_of(find_task(session, task))
    # Checked completely before anything is locked.
    for _ in read(spec):
        pass
    with store.dry_run() if dry_run else store.write() as session:
        owner = find_task(session, task)
        return context_uploads.upload_contexts(
            session, owner, read(spec), replace=replace, actor=actor.name, reason=reason, now=context.now()
        )


def list_contexts(context: ServiceContext, task: str, *, limit: int, retired: bool = False) -> ContextList:
    """Return the first contexts in the owner's order, with the number of examples on each."""
    with context.store.read() as session:
        owner = find_task(session, task)
        total = count_contexts(session, owner.id, retired=retired)
        found = contexts.list_contexts(session, owner.id, most=limit, retired=retired)
    return ContextList(total, tuple(found))


def _summary(session: Session, task: Task) -> TaskSummary:
    return TaskSummary(task, rounds.list_rounds(session, task)[-1], count_contexts(session, task.id))


def _rounds(session: Session, task: Task) -> list[RoundSummary]:
    return [
        RoundSummary(one, rounds.pinned_versions(session, one), rounds.collected(session, one))
        for one in rounds.list_rounds(session, task)
    ]
