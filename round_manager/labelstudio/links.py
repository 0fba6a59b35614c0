"""The stored links to projects in Label Studio, the annotations read from them, and the last error of each link.

Nothing here calls Label Studio. Tasks that were deleted there, or belong to a deleted project, keep their rows with
negative ids: a Label Studio that was set up anew reuses the ids.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.errors import CodedError, Hint
from round_manager.database.store import Store
from round_manager.errors import StoreError
from round_manager.labelstudio.errors import NotConnected, ProjectNotFound
from round_manager.labelstudio.tasks import is_for_people, unsent_tasks
from round_manager.models import (
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
    Task,
)
from round_manager.tasks.tasks import find_task, list_tasks

MAX_KEY_LENGTH = 120
_GONE = "gone:"


@dataclass(frozen=True)
class ProjectCounts:
    """Tasks for people that were sent and that are still to be sent, and what their annotations became."""

    sent: int
    unsent: int
    examples: int
    votes: int
    problems: int


def find_link(session: Session, task_id: int, kind: ProjectKind) -> LabelStudioLink | None:
    """Return the link to the task's project of this kind."""
    return session.scalar(
        select(LabelStudioLink).where(LabelStudioLink.task_id == task_id, LabelStudioLink.kind == kind)
    )


def save_link(session: Session, task_id: int, kind: ProjectKind, url: str, project: int) -> LabelStudioLink:
    """Link the task to this project; the records of its previous project are archived."""
    link = find_link(session, task_id, kind)
    other = session.scalar(
        select(LabelStudioLink).where(LabelStudioLink.url == url, LabelStudioLink.project == project)
    )
    if other is not None and other is not link:
        # Its project had this id in a Label Studio that no longer exists.
        _archive_records(session, other)
        other.project = -other.id
        session.flush()
    if link is None:
        link = LabelStudioLink(task_id=task_id, kind=kind, url=url, project=project)
        session.add(link)
    elif (link.url, link.project) != (url, project):
        _archive_records(session, link)
        link.url, link.project = url, project
        link.ml_backend = link.webhook = link.settings_sha256 = link.seen_until = link.last_error = None
    session.flush()
    return link


def linked_projects(store: Store, url: str, task_name: str) -> tuple[Task, dict[ProjectKind, LabelStudioLink]]:
    """Return the task and the links to its two projects; NotConnected if it has none in the Label Studio at `url`."""
    with store.read() as session:
        task = find_task(session, task_name)
        found = {kind: find_link(session, task.id, kind) for kind in ProjectKind}
    links = {kind: link for kind, link in found.items() if link is not None}
    hint = Hint("connect_label_studio", task=task_name)
    if len(links) < len(ProjectKind):
        raise NotConnected(f"{task_name} has no projects in Label Studio yet", hint=hint)
    for link in links.values():
        if link.url != url:
            raise NotConnected(f"{task_name} is connected to {link.url}, not to {url}", hint=hint)
    return task, links


def connected_tasks(store: Store, url: str | None = None) -> list[str]:
    """Return the names of the tasks that are connected to Label Studio, or to the one at this address."""
    with store.read() as session:
        links = [(task.name, find_link(session, task.id, ProjectKind.CREATE)) for task in list_tasks(session)]
    return [name for name, link in links if link is not None and url in (None, link.url)]


@contextmanager
def recording_errors(store: Store, link: LabelStudioLink, task_name: str, clock: Clock) -> Iterator[None]:
    """Record an error of the block at the link, for `status`, and raise it; success removes the recorded error."""
    try:
        yield
        if link.last_error is not None:
            with store.write() as session:
                clear_link_error(session, link.id)
    except StoreError:
        # The database itself fails, so nothing can be recorded.
        raise
    except Exception as error:
        raised = _named(error, link, task_name)
        # Only our own errors have a text for people; another library's can contain what people typed.
        text = str(raised) if isinstance(raised, CodedError) else type(raised).__name__
        with store.write() as session:
            record_link_error(session, link.id, text, now=clock.now())
        if raised is error:
            raise
        raise raised from error


def _named(error: Exception, link: LabelStudioLink, task_name: str) -> Exception:
    """Return the error, with the task and the project in its message if the project was deleted."""
    if not isinstance(error, ProjectNotFound):
        return error
    text = f"project {link.project} of {task_name} was deleted from Label Studio at {link.url}"
    return ProjectNotFound(text, status=error.status, hint=Hint("connect_label_studio", task=task_name))


def is_linked(session: Session, url: str, project: int) -> bool:
    """Whether the project is linked to a task."""
    same = select(LabelStudioLink.id).where(LabelStudioLink.url == url, LabelStudioLink.project == project)
    return session.scalar(same) is not None


def move_link(session: Session, link_id: int, url: str) -> None:
    """Record the new address of the same Label Studio."""
    session.get_one(LabelStudioLink, link_id, with_for_update=True).url = url


def update_link(
    session: Session,
    link_id: int,
    *,
    ml_backend: int | None = None,
    webhook: int | None = None,
    settings_sha256: str | None = None,
) -> None:
    """Record what was created or sent; None leaves a value as it is."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    link.ml_backend = link.ml_backend if ml_backend is None else ml_backend
    link.webhook = link.webhook if webhook is None else webhook
    link.settings_sha256 = link.settings_sha256 if settings_sha256 is None else settings_sha256


def find_annotations(
    session: Session, link: LabelStudioLink, numbers: Sequence[int]
) -> dict[int, LabelStudioAnnotation]:
    """Return the known annotations among these, by their ids in Label Studio."""
    rows = session.scalars(
        select(LabelStudioAnnotation).where(
            LabelStudioAnnotation.link_id == link.id, LabelStudioAnnotation.external_id.in_(numbers)
        )
    )
    return {row.external_id: row for row in rows if row.external_id is not None}


def lock_annotation(session: Session, task: LabelStudioTask, number: int) -> LabelStudioAnnotation | None:
    """Return what is known of an annotation; lock its task until the transaction ends."""
    session.get_one(LabelStudioTask, task.id, with_for_update=True)
    return session.scalar(
        select(LabelStudioAnnotation).where(
            LabelStudioAnnotation.link_id == task.link_id, LabelStudioAnnotation.external_id == number
        )
    )


def save_annotation(
    session: Session,
    task: LabelStudioTask,
    number: int,
    sha256: str,
    *,
    changed_at: datetime,
    example_id: int | None = None,
    vote_id: int | None = None,
    problem: str | None = None,
) -> None:
    """Record what an annotation became. An example or a vote stays; a later change is recorded as a problem."""
    row = lock_annotation(session, task, number)
    if row is None:
        row = LabelStudioAnnotation(
            link_id=task.link_id,
            label_studio_task_id=task.id,
            origin=Origin.THEIRS,
            external_id=number,
            result_sha256=sha256,
            changed_at=changed_at,
        )
        session.add(row)
    row.result_sha256, row.changed_at, row.problem = sha256, changed_at, problem
    row.example_id, row.vote_id = row.example_id or example_id, row.vote_id or vote_id
    session.flush()


def move_cursor(session: Session, link_id: int, until: datetime) -> None:
    """Record that everything changed before `until` was read; the cursor never moves back."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    link.seen_until = max(until, link.seen_until or until)


def record_sync(session: Session, link_id: int, *, now: datetime) -> None:
    """Record that the project was read completely."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    link.synced_at, link.last_error = now, None


def clear_link_error(session: Session, link_id: int) -> None:
    """Remove the recorded error."""
    session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True).last_error = None


def record_link_error(session: Session, link_id: int, text: str, *, now: datetime) -> None:
    """Record an error with its time; a repeated error keeps the time of its first occurrence."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    if link.last_error is None or link.last_error.partition(" ")[2] != text:
        link.last_error = f"{now.isoformat(timespec='seconds')} {text}"


def project_counts(session: Session, link: LabelStudioLink) -> ProjectCounts:
    """Count the project's tasks and what their annotations became."""
    sent = select(func.count()).select_from(LabelStudioTask).where(
        LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0, is_for_people()
    )  # fmt: skip
    annotation = LabelStudioAnnotation
    became = select(func.count(annotation.example_id), func.count(annotation.vote_id), func.count(annotation.problem))
    read = became.where(annotation.link_id == link.id, annotation.origin == Origin.THEIRS)
    examples, votes, problems = session.execute(read).one()
    return ProjectCounts(session.scalars(sent).one(), len(unsent_tasks(session, link)), examples, votes, problems)


def last_problems(session: Session, link: LabelStudioLink, most: int) -> list[LabelStudioAnnotation]:
    """Return the annotations that could not be read, or changed after they were read; latest first."""
    bad = select(LabelStudioAnnotation).where(
        LabelStudioAnnotation.link_id == link.id,
        LabelStudioAnnotation.origin == Origin.THEIRS,
        LabelStudioAnnotation.problem.is_not(None),
    )
    return list(session.scalars(bad.order_by(LabelStudioAnnotation.changed_at.desc()).limit(most)))


def _archive_records(session: Session, link: LabelStudioLink) -> None:
    """Negate the ids of what was sent to the old project; what was not sent yet goes to the new one."""
    gone = select(LabelStudioTask).where(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0)
    for task in session.scalars(gone).all():
        archive_task(task)
    annotation = LabelStudioAnnotation
    # The id of crowd work may be negative already, if its annotation was deleted.
    known = or_(annotation.external_id > 0, annotation.external_id.is_not(None) & annotation.key.not_like(f"{_GONE}%"))
    for one in session.scalars(select(annotation).where(annotation.link_id == link.id, known)).all():
        one.key = one.key and f"{_GONE}{one.id}:{one.key}"[:MAX_KEY_LENGTH]
        one.external_id = -one.id
    session.flush()


def archive_task(task: LabelStudioTask) -> None:
    """Record that the task no longer exists in Label Studio; another one may get its key."""
    task.key = f"{_GONE}{task.id}:{task.key}"[:MAX_KEY_LENGTH]
    task.external_id = -task.id
