"""Use cases about tasks: create one from a pack, list them, show one, and see where all of them stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from round_manager.loop.manager_record import last_pass, problem_steps
from round_manager.loop.overview import TaskOverview, task_overview
from round_manager.models import ManagerStep
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.rounds import RoundSummary, summarize_round
from round_manager.tasks import tasks
from round_manager.tasks.contexts import count_contexts
from round_manager.tasks.rounds import list_rounds
from templates import Pack


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
        task = tasks.create_task(session, pack, who=actor.name, now=context.now())
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
