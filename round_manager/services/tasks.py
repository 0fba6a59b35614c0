"""Use cases about tasks: create one from a pack, upload contexts, list them, show one, and see where all stand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from round_manager.loop.manager_record import last_pass, problem_steps
from round_manager.loop.overview import TaskOverview, task_overview
from round_manager.models import ManagerStep, spec_of
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.rounds import RoundSummary, summarize_round
from round_manager.tasks import contexts, tasks
from round_manager.tasks.contexts import ContextUse, count_contexts
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task
from round_manager.work import context_uploads
from round_manager.work.context_uploads import ContextsUploaded
from templates import Pack, TaskSpec
from templates.rows import Context


@dataclass(frozen=True)
class TaskSummary:
    """A task and its newest round."""

    task: str
    kind: str
    round: int
    status: str


@dataclass(frozen=True)
class TaskCreated(TaskSummary):
    """A task that was created or updated."""

    contexts: int


@dataclass(frozen=True)
class TaskDetails:
    """A task with all of its rounds."""

    task: str
    title: str
    kind: str
    folder: str
    contexts: int
    budget_cents: int
    rounds: tuple[RoundSummary, ...]


@dataclass(frozen=True)
class ManagerStatus:
    """The last complete pass of a manager, and the steps that fail or wait."""

    last_pass: datetime | None
    last_manager: str | None
    problems: Sequence[ManagerStep]


@dataclass(frozen=True)
class Overview:
    """Where the tasks stand, and what the manager did last."""

    tasks: tuple[TaskOverview, ...]
    manager: ManagerStatus


def create_task(context: ServiceContext, actor: Actor, pack: Pack) -> TaskCreated:
    """Create the task of a checked pack, or update it; safe to repeat."""
    with context.store.write() as session:
        task = tasks.create_task(session, pack, actor=actor.name, now=context.now())
        newest = list_rounds(session, task)[-1]
        contexts = count_contexts(session, task.id)
    return TaskCreated(task.name, task.spec["kind"], newest.number, newest.status.value, contexts)


def list_tasks(context: ServiceContext) -> list[TaskSummary]:
    """Return every task by name."""
    with context.store.read() as session:
        found = [(task, list_rounds(session, task)[-1]) for task in tasks.list_tasks(session)]
    return [TaskSummary(task.name, task.spec["kind"], newest.number, newest.status.value) for task, newest in found]


def show_task(context: ServiceContext, name: str) -> TaskDetails:
    """Return a task with its rounds."""
    with context.store.read() as session:
        task = tasks.find_task(session, name)
        rounds = tuple(summarize_round(session, one) for one in list_rounds(session, task))
        contexts = count_contexts(session, task.id)
    title, kind = task.spec["title"], task.spec["kind"]
    return TaskDetails(task.name, title, kind, task.folder, contexts, task.budget_cents, rounds)


def show_overview(context: ServiceContext, task: str | None = None, *, has_marketplace: bool) -> Overview:
    """Return where one task or every task stands; `has_marketplace` says whether the caller can post HITs."""
    with context.store.read() as session:
        chosen = [tasks.find_task(session, task)] if task else tasks.list_tasks(session)
        now = context.now()
        found = tuple(task_overview(session, one, now=now, has_marketplace=has_marketplace) for one in chosen)
        last, problems = last_pass(session), problem_steps(session, task)
    return Overview(found, ManagerStatus(last.ran_at if last else None, last.ran_by if last else None, problems))


# Reads the rows of a file for a spec; it is read twice, and raises PackError with all of its mistakes.
ContextReader = Callable[[TaskSpec], Iterable[Context]]


@dataclass(frozen=True)
class ContextList:
    """The first contexts of a task, and how many there are in total."""

    task: str
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
    return ContextList(task, total, tuple(found))
