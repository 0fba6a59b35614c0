"""Push: contexts and pending examples become tasks in Label Studio, each once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.clock import Clock
from round_manager.database.store import Store
from round_manager.labelstudio.links import linked_projects, recording_errors
from round_manager.labelstudio.port import TASK_KEY, Json, LabelStudio
from round_manager.labelstudio.stale_checks import remove_stale_checks
from round_manager.labelstudio.tasks import (
    Unsent,
    adopt_tasks,
    find_task_ids,
    mark_sent,
    plan_creation,
    plan_validation,
    unsent_tasks,
)
from round_manager.models import LabelStudioLink, ProjectKind, Task, spec_of
from templates import TaskSpec
from templates.payloads import creation_task, validation_task

TASKS_AT_ONCE = 100

# Called with the number of tasks that were sent, and of all tasks to send.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PushResult:
    """How many tasks were sent to the two projects and found there already, and how many stale checks were deleted."""

    contexts: int = 0
    validations: int = 0
    found: int = 0
    cleared: int = 0


def fill_projects(
    store: Store,
    label_studio: LabelStudio,
    task_name: str,
    clock: Clock,
    progress: Progress = lambda _done, _total: None,
) -> PushResult:
    """Send the tasks that Label Studio does not have yet; interrupted and repeated, each task is created once.

    Delete stale validation tasks that have no annotation.
    """
    task, links = linked_projects(store, label_studio.url, task_name)
    sent, found, cleared = {}, 0, 0
    for kind, link in links.items():
        with recording_errors(store, link, task_name, clock):
            sent[kind], adopted = _fill(store, label_studio, task, link, clock, progress)
            found += adopted
            cleared += remove_stale_checks(store, label_studio, link)
    return PushResult(sent[ProjectKind.CREATE], sent[ProjectKind.VALIDATE], found, cleared)


def _fill(
    store: Store, label_studio: LabelStudio, task: Task, link: LabelStudioLink, clock: Clock, progress: Progress
) -> tuple[int, int]:
    spec = spec_of(task)
    with store.write() as session:
        unconfirmed = unsent_tasks(session, link)
        if link.kind is ProjectKind.CREATE:
            plan_creation(session, link, spec, now=clock.now())
        else:
            plan_validation(session, link, now=clock.now())
        waiting = unsent_tasks(session, link)
    found = 0
    if unconfirmed:
        # Planned by an interrupted push: Label Studio may have them.
        ids = find_task_ids(label_studio, link, {one.key for one in unconfirmed})
        with store.write() as session:
            found = adopt_tasks(session, link, ids)
            waiting = unsent_tasks(session, link)
    for first in range(0, len(waiting), TASKS_AT_ONCE):
        progress(first, len(waiting))
        _send(store, label_studio, spec, link, waiting[first : first + TASKS_AT_ONCE])
    if waiting:
        progress(len(waiting), len(waiting))
    return len(waiting), found


def _send(
    store: Store, label_studio: LabelStudio, spec: TaskSpec, link: LabelStudioLink, batch: Sequence[Unsent]
) -> None:
    ids = label_studio.add_tasks(link.project, [payload(spec, one) for one in batch])
    with store.write() as session:
        late = mark_sent(session, {one.row: task_id for one, task_id in zip(batch, ids, strict=True)})
    if late:
        # Another push created the same tasks a moment earlier; these have no work on them yet.
        label_studio.delete_unannotated(link.project, late)


def payload(spec: TaskSpec, one: Unsent) -> Json:
    """Return a task as Label Studio imports it, with our key in it.

    A validation task contains the model's input, and nothing of the author, the requested label or the verdict.
    """
    if one.context is not None:
        task = creation_task(spec, one.context, one.label)
    else:
        task = validation_task(spec, {name: str(text) for name, text in (one.fields or {}).items()})
    return {**task, "meta": {**task.get("meta", {}), TASK_KEY: one.key}}
