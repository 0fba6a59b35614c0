"""Pushing: contexts and pending examples become tasks in Label Studio, each once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.clock import Clock
from plugin.labelstudio.clearing import clear
from plugin.labelstudio.finding import look_for
from plugin.labelstudio.links import linked, remembered
from plugin.labelstudio.studio import KEY, Json, Studio
from round_manager.database.store import Store
from round_manager.labelstudio.tasks import (
    Unsent,
    adopt_tasks,
    mark_sent,
    plan_creation,
    plan_validation,
    unsent_tasks,
)
from round_manager.models import LabelStudioLink, ProjectKind, Task
from round_manager.specs import spec_of
from templates import TaskSpec
from templates.payloads import creation_task, validation_task

TASKS_AT_ONCE = 100

# How many are done and how many there are to do.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Pushed:
    """What a push sent to the two projects, what it found there already, and what it took down."""

    contexts: int = 0
    validations: int = 0
    found: int = 0
    cleared: int = 0


def push(
    store: Store, studio: Studio, task_name: str, clock: Clock, progress: Progress = lambda _done, _total: None
) -> Pushed:
    """Sends what Label Studio does not have yet; killed anywhere and run again, each task is there once.

    Checks that can take no vote any more and that nobody annotated are taken down.
    """
    task, links = linked(store, studio, task_name)
    sent, found, cleared = {}, 0, 0
    for kind, link in links.items():
        with remembered(store, link, task_name, clock):
            sent[kind], adopted = _push(store, studio, task, link, clock, progress)
            found += adopted
            cleared += clear(store, studio, link)
    return Pushed(sent[ProjectKind.CREATE], sent[ProjectKind.VALIDATE], found, cleared)


def _push(
    store: Store, studio: Studio, task: Task, link: LabelStudioLink, clock: Clock, progress: Progress
) -> tuple[int, int]:
    spec = spec_of(task)
    with store.write() as session:
        in_doubt = unsent_tasks(session, link)
        if link.kind is ProjectKind.CREATE:
            plan_creation(session, link, spec, now=clock.now())
        else:
            plan_validation(session, link, now=clock.now())
        waiting = unsent_tasks(session, link)
    found = 0
    if in_doubt:
        # Planned by an earlier push that did not end: Label Studio may have them.
        there = look_for(studio, link, {one.key for one in in_doubt})
        with store.write() as session:
            found = adopt_tasks(session, link, there)
            waiting = unsent_tasks(session, link)
    for first in range(0, len(waiting), TASKS_AT_ONCE):
        progress(first, len(waiting))
        _send(store, studio, spec, link, waiting[first : first + TASKS_AT_ONCE])
    if waiting:
        progress(len(waiting), len(waiting))
    return len(waiting), found


def _send(store: Store, studio: Studio, spec: TaskSpec, link: LabelStudioLink, batch: Sequence[Unsent]) -> None:
    numbers = studio.add_tasks(link.project, [payload(spec, one) for one in batch])
    with store.write() as session:
        late = mark_sent(session, {one.row: number for one, number in zip(batch, numbers, strict=True)})
    if late:
        # Another push was quicker by a moment; nobody can have worked on these yet.
        studio.remove_untouched(link.project, late)


def payload(spec: TaskSpec, one: Unsent) -> Json:
    """A task as Label Studio imports it, with the key by which it is found again.

    A validation task has what the model read and nothing of the author, of the label asked for, or of the verdict.
    """
    if one.context is not None:
        task = creation_task(spec, one.context, one.label)
    else:
        task = validation_task(spec, {name: str(text) for name, text in (one.fields or {}).items()})
    return {**task, "meta": {**task.get("meta", {}), KEY: one.key}}
