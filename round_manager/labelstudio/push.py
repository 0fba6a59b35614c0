"""Push: contexts, refused submissions and pending examples become tasks in Label Studio, each once.

Stale checks are validation tasks that can no longer take a vote. Those without an annotation are deleted, so that no
validator works in vain; so are tasks that return a submission which was corrected in its place.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from common.clock import Clock
from round_manager.database.store import Store
from round_manager.labelstudio import tasks
from round_manager.labelstudio.port import TASK_KEY, Json, LabelStudio
from round_manager.labelstudio.projects import archive_task, linked_projects, lock_link, recording_errors
from round_manager.models import (
    Example,
    ExampleStatus,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    ProjectKind,
    Round,
    Task,
    spec_of,
)
from round_manager.tasks.rounds import LIVE
from templates import TaskSpec
from templates.payloads import creation_task, outcome_values, validation_task

TASKS_AT_ONCE = 100
RETURNED = "returned"
# A flagged example can return to validation.
MAY_BE_JUDGED = (ExampleStatus.PENDING, ExampleStatus.FLAGGED)

# Called with the number of tasks that were sent, and of all tasks to send.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PushResult:
    """How many tasks were sent to the two projects and found there already, and how many stale checks were deleted.

    `known` is the number of tasks that were sent before, for example by the manager.
    """

    contexts: int = 0
    validations: int = 0
    found: int = 0
    cleared: int = 0
    known: int = field(default=0, compare=False)


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
    with store.read() as session:
        known = sum(tasks.count_sent(session, link) for link in links.values())
    for kind, link in links.items():
        with recording_errors(store, link, task_name, clock):
            sent[kind], adopted = _fill(store, label_studio, task, link, clock, progress)
            found += adopted
            cleared += remove_stale_checks(store, label_studio, link)
    return PushResult(sent[ProjectKind.CREATE], sent[ProjectKind.VALIDATE], found, cleared, known)


def _fill(
    store: Store, label_studio: LabelStudio, task: Task, link: LabelStudioLink, clock: Clock, progress: Progress
) -> tuple[int, int]:
    spec = spec_of(task)
    with store.write() as session:
        unconfirmed = tasks.unsent_tasks(session, link)
        if link.kind is ProjectKind.CREATE:
            tasks.plan_creation(session, link, spec, now=clock.now())
        else:
            tasks.plan_validation(session, link, now=clock.now())
        waiting = tasks.unsent_tasks(session, link)
    found = 0
    if unconfirmed:
        # Planned by an interrupted push: Label Studio may have them.
        ids = tasks.find_task_ids(label_studio, link, {one.key for one in unconfirmed})
        with store.write() as session:
            found = tasks.adopt_tasks(session, link, ids)
            waiting = tasks.unsent_tasks(session, link)
    for first in range(0, len(waiting), TASKS_AT_ONCE):
        progress(first, len(waiting))
        _send(store, label_studio, spec, link, waiting[first : first + TASKS_AT_ONCE])
    if waiting:
        progress(len(waiting), len(waiting))
    return len(waiting), found


def _send(
    store: Store, label_studio: LabelStudio, spec: TaskSpec, link: LabelStudioLink, batch: Sequence[tasks.Unsent]
) -> None:
    ids = label_studio.add_tasks(link.project, [payload(spec, one) for one in batch])
    with store.write() as session:
        late = tasks.mark_sent(session, {one.row: task_id for one, task_id in zip(batch, ids, strict=True)})
    if late:
        # Another push created the same tasks a moment earlier; these have no work on them yet.
        label_studio.delete_unannotated(link.project, late)


def payload(spec: TaskSpec, one: tasks.Unsent) -> Json:
    """Return a task as Label Studio imports it, with our key in it.

    A validation task contains the model's input, and nothing of the author, the requested label or the verdict.
    """
    if one.context is not None:
        task = creation_task(spec, one.context, one.label)
        if one.returned is not None:
            task["data"] |= outcome_values(spec, {"status": RETURNED, **one.returned})
    else:
        task = validation_task(spec, {name: str(text) for name, text in (one.fields or {}).items()})
    return {**task, "meta": {**task.get("meta", {}), TASK_KEY: one.key}}


def remove_stale_checks(store: Store, label_studio: LabelStudio, link: LabelStudioLink) -> int:
    """Delete the project's stale checks; return how many. If it is interrupted, the next call finishes."""
    stale = _sent_checks(store, label_studio, link)
    removed = 0
    for first in range(0, len(stale), TASKS_AT_ONCE):
        batch = {one.external_id: one.id for one in stale[first : first + TASKS_AT_ONCE] if one.external_id is not None}
        remaining = label_studio.delete_unannotated(link.project, list(batch))
        gone = [row for task_id, row in batch.items() if task_id not in remaining]
        with store.write() as session:
            _archive_checks(session, link, gone)
        removed += len(gone)
    return removed


def _sent_checks(store: Store, label_studio: LabelStudio, link: LabelStudioLink) -> Sequence[LabelStudioTask]:
    """Return the stale checks that exist in Label Studio; those of an interrupted push are looked up first."""
    with store.read() as session:
        stale = _stale_checks(session, link)
    unconfirmed = {one.key: one.id for one in stale if one.external_id is None}
    if not unconfirmed:
        return stale
    found = tasks.find_task_ids(label_studio, link, set(unconfirmed))
    with store.write() as session:
        tasks.adopt_tasks(session, link, found)
        # A push that sends one of them right now finds its row archived, and deletes the task again.
        _archive_checks(session, link, [row for key, row in unconfirmed.items() if key not in found])
        return _stale_checks(session, link)


def _stale_checks(session: Session, link: LabelStudioLink) -> Sequence[LabelStudioTask]:
    """Return the project's stale checks, as far as its annotations were read; oldest first."""
    if link.kind is ProjectKind.CREATE:
        return tasks.needless_returns(session, link)
    read = select(LabelStudioAnnotation.id).where(LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id)
    takes_votes = and_(Round.status.in_(LIVE), Example.status.in_(MAY_BE_JUDGED))
    stale = (
        select(LabelStudioTask)
        .join(Example, Example.id == LabelStudioTask.example_id)
        .join(Round, Round.id == Example.round_id)
        .where(LabelStudioTask.link_id == link.id, tasks.is_active(), ~takes_votes, ~read.exists())
        .order_by(LabelStudioTask.id)
    )
    return session.scalars(stale).all()


def _archive_checks(session: Session, link: LabelStudioLink, rows: Collection[int]) -> None:
    """Record that these checks no longer exist in Label Studio."""
    lock_link(session, link)
    gone = select(LabelStudioTask).where(LabelStudioTask.id.in_(rows), tasks.is_active())
    for task in session.scalars(gone.execution_options(populate_existing=True)).all():
        archive_task(task)
    session.flush()
