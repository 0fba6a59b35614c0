"""Sync: annotations in Label Studio become examples and votes, each once; only what changed is read."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from functools import partial
from operator import add

from common.clock import Clock
from ml_backend.judge import Judge
from round_manager.database.store import Store
from round_manager.labelstudio.intake import Intake, IntakeOutcome, find_annotations
from round_manager.labelstudio.port import LabelStudio, ProjectTask, WaitingForRound, id_pages
from round_manager.labelstudio.projects import linked_projects, lock_link, recording_errors
from round_manager.labelstudio.push import remove_stale_checks
from round_manager.labelstudio.tasks import tasks_known
from round_manager.labelstudio.upload_queue import is_crowd_work
from round_manager.models import LabelStudioLink

TASKS_AT_ONCE = 100
# Read again each time: a write that began before the last read may have become visible only after it.
OVERLAP = timedelta(minutes=2)
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class SyncResult:
    """How many annotations were new or changed and what they became, and how many wait for a round.

    `cleared` is the number of stale checks that were deleted.
    """

    read: int = 0
    examples: int = 0
    votes: int = 0
    problems: int = 0
    left: int = 0
    cleared: int = 0

    def __add__(self, other: "SyncResult") -> "SyncResult":
        return SyncResult(*map(add, astuple(self), astuple(other)))


_COUNTED = {
    IntakeOutcome.NOTHING: SyncResult(),
    IntakeOutcome.EXAMPLE: SyncResult(read=1, examples=1),
    IntakeOutcome.VOTE: SyncResult(read=1, votes=1),
    IntakeOutcome.PROBLEM: SyncResult(read=1, problems=1),
}


def read_projects(
    store: Store, label_studio: LabelStudio, task_name: str, judge: Judge, clock: Clock, *, from_start: bool = False
) -> SyncResult:
    """Read what changed since the last time, or everything; interrupted and repeated, nothing is doubled or lost.

    Submissions that arrive while no round is open stay in Label Studio and are read once there is one.
    """
    task, links = linked_projects(store, label_studio.url, task_name)
    found = SyncResult()
    for link in links.values():
        with recording_errors(store, link, task_name, clock):
            began = clock.now()
            intake = Intake(store, task, link, judge, clock)
            found += _read_project(label_studio, intake, None if from_start else _since(link))
            found += SyncResult(cleared=remove_stale_checks(store, label_studio, link))
            with store.write() as session:
                current = lock_link(session, link)
                current.synced_at, current.last_error = began, None
    return found


def changed_pages(label_studio: LabelStudio, project: int, since: datetime | None) -> Iterator[tuple[ProjectTask, ...]]:
    """Yield everything that changed since then, page by page, also while people continue to work."""
    while True:
        page = label_studio.changed_tasks(project, since, size=TASKS_AT_ONCE)
        if page.tasks:
            yield page.tasks
        if len(page.tasks) < TASKS_AT_ONCE:
            return
        last = page.tasks[-1].changed_at
        if last == since:
            # A bulk action changed more than a page of tasks at the same moment.
            same_moment = partial(label_studio.tasks_changed_at, project, last)
            yield from (page.tasks for page in id_pages(same_moment, TASKS_AT_ONCE))
            last += TICK
        since = last


def _since(link: LabelStudioLink) -> datetime | None:
    """Return from when on to read. If Label Studio's clock was ahead of ours, ours counts: theirs may be corrected."""
    if link.seen_until is None or link.synced_at is None:
        return link.seen_until and link.seen_until - OVERLAP
    return min(link.seen_until, link.synced_at) - OVERLAP


def _read_project(label_studio: LabelStudio, intake: Intake, since: datetime | None) -> SyncResult:
    store, link = intake.store, intake.link
    found, read_until = SyncResult(), link.seen_until
    try:
        intake.check_ready()
        for tasks in changed_pages(label_studio, link.project, since):
            for one in _read_tasks(store, link, intake, tasks):
                found += one
            if read_until is None or tasks[-1].changed_at > read_until:
                read_until = tasks[-1].changed_at
                with store.write() as session:
                    current = lock_link(session, link)
                    # Another process may have read further.
                    current.seen_until = max(read_until, current.seen_until or read_until)
    except WaitingForRound:
        unread = label_studio.changed_tasks(link.project, read_until + TICK if read_until else None, size=1)
        found += SyncResult(left=unread.total)
    return found


def _read_tasks(
    store: Store, link: LabelStudioLink, intake: Intake, tasks: tuple[ProjectTask, ...]
) -> Iterator[SyncResult]:
    with store.read() as session:
        rows = tasks_known(session, link, {task.id: task.key for task in tasks})
        ids = [int(one["id"]) for task in tasks for one in task.annotations]
        known = find_annotations(session, link.id, ids)
    for task in tasks:
        row = rows.get(task.id)
        if row is None or is_crowd_work(row):
            continue  # Not our task, or an uploaded crowd submission.
        for annotation in task.annotations:
            yield _COUNTED[intake.take(row, task, annotation, known.get(int(annotation["id"])))]
