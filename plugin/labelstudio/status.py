"""The status of tasks in Label Studio: what stands there, how far it was read, and what is wrong."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.studio import Studio
from round_manager.database.store import Store
from round_manager.labelstudio.crowd import CrowdCounts, crowd_counts
from round_manager.labelstudio.mirror import Counts, counts, find_link, last_problems
from round_manager.models import LabelStudioLink, ProjectKind
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task, list_tasks

PROBLEMS_SHOWN = 5
TICK = timedelta(microseconds=1)
NOT_ASKED = "unknown"


@dataclass(frozen=True)
class Problem:
    """An annotation that became nothing, or changed too late, and why."""

    annotation: int | None
    changed_at: datetime
    text: str


@dataclass(frozen=True)
class ProjectStatus:
    """One project of a task: what we know, and what Label Studio says where it answers."""

    task: str
    kind: str
    url: str
    project: int
    counts: Counts
    read_until: datetime | None
    synced_at: datetime | None
    last_error: str | None
    problems: tuple[Problem, ...]
    crowd: CrowdCounts
    title: str = NOT_ASKED
    backend: str = NOT_ASKED
    webhook: str = NOT_ASKED
    unread: int | None = None


@dataclass(frozen=True)
class Status:
    """Whether Label Studio answers, to whom, and how each project is."""

    url: str
    user: str | None
    error: str | None
    retry: bool
    projects: tuple[ProjectStatus, ...]
    unconnected: tuple[str, ...]
    without_round: tuple[str, ...]


def find_status(store: Store, studio: Studio, task_name: str | None) -> Status:
    """How one task is, or all; that Label Studio does not answer is part of it and never an error."""
    user, error, retry = None, None, False
    try:
        user = studio.whoami()
    except LabelStudioError as failed:
        error, retry = str(failed), failed.retry
    kept: list[tuple[ProjectStatus, LabelStudioLink, int | None]] = []
    unconnected, without_round = [], []
    with store.read() as session:
        for task in [find_task(session, task_name)] if task_name else list_tasks(session):
            links = [link for kind in ProjectKind if (link := find_link(session, task.id, kind)) is not None]
            live = live_round(session, task.id)
            if not links:
                unconnected.append(task.name)
            elif live is None:
                without_round.append(task.name)
            for link in links:
                problems = tuple(
                    Problem(bad.external_id, bad.changed_at, bad.problem or "")
                    for bad in last_problems(session, link, PROBLEMS_SHOWN)
                )
                one = _kept(task.name, link, counts(session, link), problems, crowd_counts(session, link))
                kept.append((one, link, live.number if live else None))
    found = [_seen(studio, one, link, number) if user else one for one, link, number in kept]
    return Status(studio.url, user, error, retry, tuple(found), tuple(unconnected), tuple(without_round))


def _kept(
    task: str, link: LabelStudioLink, known: Counts, problems: tuple[Problem, ...], crowd: CrowdCounts
) -> ProjectStatus:
    return ProjectStatus(
        task=task,
        kind=link.kind.value,
        url=link.url,
        project=link.project,
        counts=known,
        read_until=link.seen_until,
        synced_at=link.synced_at,
        last_error=link.last_error,
        problems=problems,
        crowd=crowd,
    )


def _seen(studio: Studio, kept: ProjectStatus, link: LabelStudioLink, round_number: int | None) -> ProjectStatus:
    if link.url != studio.url:
        return replace(kept, title=f"at {link.url}, but the settings name {studio.url}")
    try:
        project = studio.project(link.project)
        if project is None:
            return replace(kept, title=f"gone; `outfox labelstudio connect {kept.task}` makes another")
        since = None if link.seen_until is None else link.seen_until + TICK
        return replace(
            kept,
            title=project.title,
            backend=_backend(studio, kept.task, link, round_number),
            webhook=_webhook(studio, link),
            unread=studio.changed_tasks(link.project, since, size=1).total,
        )
    except LabelStudioError as error:
        return replace(kept, title=str(error))


def _backend(studio: Studio, task: str, link: LabelStudioLink, round_number: int | None) -> str:
    if link.kind is ProjectKind.VALIDATE:
        return "none, so that nobody sees what a model says"
    if link.ml_backend is None:
        return f"none; `outfox labelstudio connect {task} --ml-backend URL` connects one"
    mine = next((one for one in studio.backends(link.project) if one.id == link.ml_backend), None)
    if mine is None:
        return f"removed; `outfox labelstudio connect {task} --ml-backend URL` connects one"
    said = f"{mine.state} at {mine.url}" + (f" ({mine.error})" if mine.error else "")
    wanted = "" if round_number is None else f"/rounds/{round_number}"
    if not mine.url.endswith(f"/tasks/{task}{wanted}"):
        said += f"; the round is another one: `outfox manage` moves it, or `outfox labelstudio connect {task}`"
    return said if mine.interactive else f"{said}; interactive preannotations are off"


def _webhook(studio: Studio, link: LabelStudioLink) -> str:
    mine = next((one.hook for one in studio.hooks(link.project) if one.id == link.webhook), None)
    if mine is None:
        return "none; changes are found by `sync` alone"
    return f"to {mine.url}" if mine.active else f"switched off, to {mine.url}"
