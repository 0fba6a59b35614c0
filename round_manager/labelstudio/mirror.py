"""The mirror of what stands in Label Studio: projects, tasks, annotations, and how far they were read.

Nothing here calls Label Studio. What was taken down, or stood in a project that is gone, keeps its rows, under numbers
below zero: a Label Studio that was set up anew counts from one again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from round_manager.labelstudio.tasks import is_for_people, unsent_tasks
from round_manager.models import (
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
)

LONGEST_KEY = 120
_GONE = "gone:"


@dataclass(frozen=True)
class Counts:
    """What is known of a project: tasks for people, there and still to be sent, and what their annotations became."""

    sent: int
    unsent: int
    examples: int
    votes: int
    problems: int


def find_link(session: Session, task_id: int, kind: ProjectKind) -> LabelStudioLink | None:
    """The task's project of this kind."""
    return session.scalar(
        select(LabelStudioLink).where(LabelStudioLink.task_id == task_id, LabelStudioLink.kind == kind)
    )


def keep_link(session: Session, task_id: int, kind: ProjectKind, url: str, project: int) -> LabelStudioLink:
    """The task's link, which leads to this project from now on; what is known of another one is set aside."""
    link = find_link(session, task_id, kind)
    other = session.scalar(
        select(LabelStudioLink).where(LabelStudioLink.url == url, LabelStudioLink.project == project)
    )
    if other is not None and other is not link:
        # Its project had this number in a Label Studio that is gone.
        _set_aside(session, other)
        other.project = -other.id
        session.flush()
    if link is None:
        link = LabelStudioLink(task_id=task_id, kind=kind, url=url, project=project)
        session.add(link)
    elif (link.url, link.project) != (url, project):
        _set_aside(session, link)
        link.url, link.project = url, project
        link.ml_backend = link.webhook = link.settings_sha256 = link.seen_until = link.last_error = None
    session.flush()
    return link


def is_linked(session: Session, url: str, project: int) -> bool:
    """Whether the project is some task's."""
    same = select(LabelStudioLink.id).where(LabelStudioLink.url == url, LabelStudioLink.project == project)
    return session.scalar(same) is not None


def move_link(session: Session, link_id: int, url: str) -> None:
    """The same Label Studio is found at another address from now on."""
    session.get_one(LabelStudioLink, link_id, with_for_update=True).url = url


def note_link(
    session: Session,
    link_id: int,
    *,
    ml_backend: int | None = None,
    webhook: int | None = None,
    settings_sha256: str | None = None,
) -> None:
    """What was made or sent there; what is not given stays as it is."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    link.ml_backend = link.ml_backend if ml_backend is None else ml_backend
    link.webhook = link.webhook if webhook is None else webhook
    link.settings_sha256 = link.settings_sha256 if settings_sha256 is None else settings_sha256


def annotations_numbered(
    session: Session, link: LabelStudioLink, numbers: Sequence[int]
) -> dict[int, LabelStudioAnnotation]:
    """What was read or pushed of these annotations, by their numbers there."""
    rows = session.scalars(
        select(LabelStudioAnnotation).where(
            LabelStudioAnnotation.link_id == link.id, LabelStudioAnnotation.external_id.in_(numbers)
        )
    )
    return {row.external_id: row for row in rows if row.external_id is not None}


def hold_annotation(session: Session, task: LabelStudioTask, number: int) -> LabelStudioAnnotation | None:
    """What is known of a task's annotation now; until the transaction ends, nobody else reads the task's work."""
    session.get_one(LabelStudioTask, task.id, with_for_update=True)
    return session.scalar(
        select(LabelStudioAnnotation).where(
            LabelStudioAnnotation.link_id == task.link_id, LabelStudioAnnotation.external_id == number
        )
    )


def keep_annotation(
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
    """Writes down what an annotation became; one that became something stays that, and a problem says what changed."""
    row = hold_annotation(session, task, number)
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
    """Everything that changed before `until` was read; it never moves back."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    link.seen_until = max(until, link.seen_until or until)


def note_success(session: Session, link_id: int, *, now: datetime) -> None:
    """The project was read to its end."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    link.synced_at, link.last_error = now, None


def clear_error(session: Session, link_id: int) -> None:
    """What was wrong is right again."""
    session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True).last_error = None


def note_error(session: Session, link_id: int, text: str, *, now: datetime) -> None:
    """What went wrong, and since when: the same error keeps its first time."""
    link = session.get_one(LabelStudioLink, link_id, with_for_update=True, populate_existing=True)
    if link.last_error is None or link.last_error.partition(" ")[2] != text:
        link.last_error = f"{now.isoformat(timespec='seconds')} {text}"


def counts(session: Session, link: LabelStudioLink) -> Counts:
    """How much is there, and what became of it."""
    sent = select(func.count()).select_from(LabelStudioTask).where(
        LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0, is_for_people()
    )  # fmt: skip
    annotation = LabelStudioAnnotation
    became = select(func.count(annotation.example_id), func.count(annotation.vote_id), func.count(annotation.problem))
    read = became.where(annotation.link_id == link.id, annotation.origin == Origin.THEIRS)
    examples, votes, problems = session.execute(read).one()
    return Counts(session.scalars(sent).one(), len(unsent_tasks(session, link)), examples, votes, problems)


def last_problems(session: Session, link: LabelStudioLink, most: int) -> list[LabelStudioAnnotation]:
    """The annotations that became nothing, or changed afterwards; the latest first."""
    bad = select(LabelStudioAnnotation).where(
        LabelStudioAnnotation.link_id == link.id,
        LabelStudioAnnotation.origin == Origin.THEIRS,
        LabelStudioAnnotation.problem.is_not(None),
    )
    return list(session.scalars(bad.order_by(LabelStudioAnnotation.changed_at.desc()).limit(most)))


def _set_aside(session: Session, link: LabelStudioLink) -> None:
    """What was sent to the old project goes below zero; what was not will go to the new one."""
    gone = select(LabelStudioTask).where(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0)
    for task in session.scalars(gone).all():
        set_aside_task(task)
    annotation = LabelStudioAnnotation
    # Of crowd work the number may be below zero already, where somebody removed the annotation.
    known = or_(annotation.external_id > 0, annotation.external_id.is_not(None) & annotation.key.not_like(f"{_GONE}%"))
    for one in session.scalars(select(annotation).where(annotation.link_id == link.id, known)).all():
        one.key = one.key and f"{_GONE}{one.id}:{one.key}"[:LONGEST_KEY]
        one.external_id = -one.id
    session.flush()


def set_aside_task(task: LabelStudioTask) -> None:
    """The task stands in Label Studio no more, and another one may get its key."""
    task.key = f"{_GONE}{task.id}:{task.key}"[:LONGEST_KEY]
    task.external_id = -task.id
