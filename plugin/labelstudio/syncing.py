"""Syncing: what people did in Label Studio becomes examples and votes, each once, and only what changed is read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.clock import Clock
from ml_backend.judge import Judge
from plugin.labelstudio.clearing import clear
from plugin.labelstudio.errors import NoRound
from plugin.labelstudio.intake import Intake, Outcome
from plugin.labelstudio.links import linked, remembered
from plugin.labelstudio.studio import Studio, TaskSeen
from round_manager.database.store import Store
from round_manager.labelstudio.crowd import is_crowd_work
from round_manager.labelstudio.mirror import annotations_numbered, move_cursor, note_success
from round_manager.labelstudio.tasks import tasks_known
from round_manager.models import LabelStudioLink

TASKS_AT_ONCE = 100
# Read again each time: what Label Studio began to write before the last read may have become visible only after it.
OVERLAP = timedelta(minutes=2)
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Synced:
    """What a sync found: annotations that were new or changed, what they became, and what waits for a round.

    And how many checks it took down that nobody annotated and that can take no vote any more.
    """

    read: int = 0
    examples: int = 0
    votes: int = 0
    problems: int = 0
    left: int = 0
    cleared: int = 0

    def __add__(self, other: "Synced") -> "Synced":
        return Synced(
            self.read + other.read,
            self.examples + other.examples,
            self.votes + other.votes,
            self.problems + other.problems,
            self.left + other.left,
            self.cleared + other.cleared,
        )


_COUNTED = {
    Outcome.NOTHING: Synced(),
    Outcome.EXAMPLE: Synced(read=1, examples=1),
    Outcome.VOTE: Synced(read=1, votes=1),
    Outcome.PROBLEM: Synced(read=1, problems=1),
}


def sync_task(
    store: Store, studio: Studio, task_name: str, judge: Judge, clock: Clock, *, from_start: bool = False
) -> Synced:
    """Reads what changed since the last time, or everything; killed anywhere and run again, nothing is doubled or lost.

    Writers' work that comes while no round is open is left where it is, and read once there is one.
    """
    task, links = linked(store, studio, task_name)
    found = Synced()
    for link in links.values():
        with remembered(store, link, task_name, clock):
            began = clock.now()
            intake = Intake(store, task, link, judge, clock)
            found += _sync(studio, intake, None if from_start else _since(link))
            found += Synced(cleared=clear(store, studio, link))
            with store.write() as session:
                note_success(session, link.id, now=began)
    return found


def _since(link: LabelStudioLink) -> datetime | None:
    """From when on to read. Where Label Studio's clock was ahead of ours, ours counts, for theirs may be set right."""
    if link.seen_until is None or link.synced_at is None:
        return link.seen_until and link.seen_until - OVERLAP
    return min(link.seen_until, link.synced_at) - OVERLAP


def _sync(studio: Studio, intake: Intake, since: datetime | None) -> Synced:
    store, link = intake.store, intake.link
    found, read_until = Synced(), link.seen_until
    try:
        intake.check_ready()
        for tasks in changed_pages(studio, link.project, since):
            for one in _read(store, link, intake, tasks):
                found += one
            if read_until is None or tasks[-1].changed_at > read_until:
                read_until = tasks[-1].changed_at
                with store.write() as session:
                    move_cursor(session, link.id, read_until)
    except NoRound:
        unread = studio.changed_tasks(link.project, read_until + TICK if read_until else None, size=1)
        found += Synced(left=unread.total)
    return found


def _read(store: Store, link: LabelStudioLink, intake: Intake, tasks: tuple[TaskSeen, ...]) -> Iterator[Synced]:
    with store.read() as session:
        rows = tasks_known(session, link, {task.id: task.key for task in tasks})
        numbers = [int(one["id"]) for task in tasks for one in task.annotations]
        known = annotations_numbered(session, link, numbers)
    for task in tasks:
        row = rows.get(task.id)
        if row is None or is_crowd_work(row):
            continue  # somebody else's task, or one that we have from the crowd
        for annotation in task.annotations:
            yield _COUNTED[intake.take(row, task, annotation, known.get(int(annotation["id"])))]


def changed_pages(studio: Studio, project: int, since: datetime | None) -> Iterator[tuple[TaskSeen, ...]]:
    """Everything that changed since then, page by page, also while people go on working."""
    while True:
        page = studio.changed_tasks(project, since, size=TASKS_AT_ONCE)
        if page.tasks:
            yield page.tasks
        if len(page.tasks) < TASKS_AT_ONCE:
            return
        last = page.tasks[-1].changed_at
        if last == since:
            # More than a page changed at one moment, as actions on many tasks do.
            yield from _pages_of_moment(studio, project, last)
            last += TICK
        since = last


def _pages_of_moment(studio: Studio, project: int, moment: datetime) -> Iterator[tuple[TaskSeen, ...]]:
    after = 0
    while True:
        page = studio.tasks_changed_at(project, moment, after=after, size=TASKS_AT_ONCE)
        if page.tasks:
            yield page.tasks
        if len(page.tasks) < TASKS_AT_ONCE:
            return
        after = page.tasks[-1].id
