"""The status of tasks in Label Studio: projects, how far they were read, and what is wrong."""

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from common.errors import Hint
from round_manager.database.store import Store
from round_manager.labelstudio.port import LabelStudio, LabelStudioError
from round_manager.labelstudio.projects import find_link
from round_manager.labelstudio.sync import TICK
from round_manager.labelstudio.tasks import count_sent, unsent_tasks
from round_manager.labelstudio.upload_queue import CrowdCounts, crowd_counts
from round_manager.models import LabelStudioAnnotation, LabelStudioLink, Origin, ProjectKind
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task, list_tasks

PROBLEMS_SHOWN = 5
UNKNOWN = "unknown"


@dataclass(frozen=True)
class ProjectCounts:
    """Tasks for people that were sent and that are still to be sent, and what their annotations became."""

    sent: int
    unsent: int
    examples: int
    votes: int
    problems: int


@dataclass(frozen=True)
class AnnotationProblem:
    """An annotation that could not be read, or changed after it was read, and why."""

    annotation: int | None
    changed_at: datetime
    text: str


@dataclass(frozen=True)
class ProjectStatus:
    """One project of a task: what we stored, and what Label Studio reports if it responds."""

    task: str
    kind: str
    url: str
    project: int
    counts: ProjectCounts
    read_until: datetime | None
    synced_at: datetime | None
    last_error: str | None
    problems: tuple[AnnotationProblem, ...]
    crowd: CrowdCounts
    title: str = UNKNOWN
    backend: str = UNKNOWN
    webhook: str = UNKNOWN
    unread: int | None = None
    hint: Hint | None = None


@dataclass(frozen=True)
class LabelStudioStatus:
    """Whether Label Studio responds, as which user, and the status of each project."""

    url: str
    user: str | None
    error: str | None
    retry: bool
    projects: tuple[ProjectStatus, ...]
    unconnected: tuple[str, ...]
    without_round: tuple[str, ...]


def find_status(store: Store, label_studio: LabelStudio, task_name: str | None) -> LabelStudioStatus:
    """Return the status of one task, or of all; an error of Label Studio is part of it and not raised."""
    user, error, retry = None, None, False
    try:
        user = label_studio.whoami()
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
            number = live.number if live else None
            kept += [(_stored(session, task.name, link), link, number) for link in links]
    found = [_current(label_studio, one, link, number) if user else one for one, link, number in kept]
    return LabelStudioStatus(
        label_studio.url, user, error, retry, tuple(found), tuple(unconnected), tuple(without_round)
    )


def _stored(session: Session, task: str, link: LabelStudioLink) -> ProjectStatus:
    annotation = LabelStudioAnnotation
    read = (annotation.link_id == link.id, annotation.origin == Origin.THEIRS)
    bad = select(annotation).where(*read, annotation.problem.is_not(None))
    latest = session.scalars(bad.order_by(annotation.changed_at.desc()).limit(PROBLEMS_SHOWN))
    return ProjectStatus(
        task=task,
        kind=link.kind.value,
        url=link.url,
        project=link.project,
        counts=_counts(session, link, *read),
        read_until=link.seen_until,
        synced_at=link.synced_at,
        last_error=link.last_error,
        problems=tuple(AnnotationProblem(one.external_id, one.changed_at, one.problem or "") for one in latest),
        crowd=crowd_counts(session, link),
    )


def _counts(session: Session, link: LabelStudioLink, *read: ColumnElement[bool]) -> ProjectCounts:
    annotation = LabelStudioAnnotation
    became = select(func.count(annotation.example_id), func.count(annotation.vote_id), func.count(annotation.problem))
    examples, votes, problems = session.execute(became.where(*read)).one()
    return ProjectCounts(count_sent(session, link), len(unsent_tasks(session, link)), examples, votes, problems)


def _current(
    label_studio: LabelStudio, stored: ProjectStatus, link: LabelStudioLink, round_number: int | None
) -> ProjectStatus:
    connect = Hint("connect_label_studio", task=stored.task)
    if link.url != label_studio.url:
        return replace(stored, title=f"at {link.url}, but the settings name {label_studio.url}", hint=connect)
    try:
        project = label_studio.project(link.project)
        if project is None:
            return replace(stored, title="deleted", hint=connect)
        since = None if link.seen_until is None else link.seen_until + TICK
        backend, hint = _backend(label_studio, stored.task, link, round_number)
        return replace(
            stored,
            title=project.title,
            backend=backend,
            webhook=_webhook(label_studio, link),
            unread=label_studio.changed_tasks(link.project, since, size=1).total,
            hint=hint,
        )
    except LabelStudioError as error:
        return replace(stored, title=str(error), hint=error.hint)


def _backend(
    label_studio: LabelStudio, task: str, link: LabelStudioLink, round_number: int | None
) -> tuple[str, Hint | None]:
    if link.kind is ProjectKind.VALIDATE:
        return "none: validators must not see a model's answer", None
    connect = Hint("connect_ml_backend", task=task)
    if link.ml_backend is None:
        return "none", connect
    mine = next((one for one in label_studio.backends(link.project) if one.id == link.ml_backend), None)
    if mine is None:
        return "removed", connect
    text = f"{mine.state} at {mine.url}" + (f" ({mine.error})" if mine.error else "")
    if not mine.interactive:
        text += "; interactive preannotations are off"
    wanted = "" if round_number is None else f"/rounds/{round_number}"
    if mine.url.endswith(f"/tasks/{task}{wanted}"):
        return text, None
    return f"{text}; not the live round, the manager moves it", Hint("connect_label_studio", task=task)


def _webhook(label_studio: LabelStudio, link: LabelStudioLink) -> str:
    mine = next((one.webhook for one in label_studio.webhooks(link.project) if one.id == link.webhook), None)
    if mine is None:
        return "none; only a sync finds changes"
    return f"to {mine.url}" if mine.active else f"inactive, to {mine.url}"
