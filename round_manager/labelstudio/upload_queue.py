"""The queue of crowd work to upload to Label Studio: planned once, sent, and found again.

Only confirmed work is planned. Its tasks have neither a context nor an example as their subject, so that the plans for
people who work in Label Studio do not count them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from round_manager.labelstudio.confirmed_work import held_back, unplanned
from round_manager.labelstudio.projects import lock_link
from round_manager.models import (
    Context,
    Example,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
    Round,
    Task,
    Vote,
    Worker,
    spec_of,
)
from round_manager.pseudonyms import pseudonym
from templates import TaskSpec

# Longer than a request can take: after it, what was sent last has arrived, or never will.
MIN_BACKOFF = timedelta(minutes=2)
MAX_BACKOFF = timedelta(minutes=15)
RETRY_REFUSED_AFTER = timedelta(hours=1)


@dataclass(frozen=True)
class CrowdItem:
    """One example, or one vote on it, with everything needed to show it."""

    row: int
    key: str
    spec: TaskSpec
    round: int
    worker: str
    context: str | None
    example: Example
    vote: Vote | None


@dataclass(frozen=True)
class UploadedItem:
    """The ids of an item in Label Studio; the annotation is None if it was deleted there."""

    task: int
    annotation: int | None
    sha256: str


@dataclass(frozen=True)
class UploadQueue:
    """Items that were planned and are not known to be in Label Studio: how many, since when, and the last attempt."""

    waiting: int
    planned_at: datetime
    tried_at: datetime

    def next_try(self, *, grow: bool = True) -> datetime:
        """Return when to retry: the backoff is as long as the upload has been failing, or minimal without `grow`."""
        failing = min(self.tried_at - self.planned_at, MAX_BACKOFF) if grow else MIN_BACKOFF
        return self.tried_at + max(failing, MIN_BACKOFF)


@dataclass(frozen=True)
class CrowdCounts:
    """How much crowd work a project shows, and what it does not show yet.

    `held` counts votes on examples that people in Label Studio may still be asked about.
    """

    shown: int
    waiting: int
    held: int
    refused: int
    failure: str | None
    refusal: str | None
    next_try: datetime | None


def is_crowd_work(task: LabelStudioTask) -> bool:
    """Whether a task only shows a crowd submission; annotations of it are not read."""
    return task.context_id is None and task.example_id is None


def has_crowd_work(session: Session, link: LabelStudioLink, *, now: datetime) -> bool:
    """Whether there is anything to plan or to upload."""
    due = _ours(LabelStudioAnnotation.id, link).where(_is_due(now)).limit(1)
    return session.scalar(due) is not None or session.execute(unplanned(link).limit(1)).first() is not None


def find_queue(session: Session, link: LabelStudioLink) -> UploadQueue | None:
    """Return the items that are not known to be in Label Studio; None if there are none."""
    first, last = func.min(LabelStudioTask.created_at), func.max(LabelStudioAnnotation.changed_at)
    count, planned_at, tried_at = session.execute(_ours(func.count(), link, first, last).where(_is_unsent())).one()
    return UploadQueue(count, planned_at, tried_at) if count else None


def plan_crowd_work(session: Session, link: LabelStudioLink, *, now: datetime, most: int) -> int:
    """Plan a task for each confirmed example or vote that has none, oldest first; return how many."""
    lock_link(session, link)
    owner = session.get_one(Task, link.task_id)
    found = session.execute(unplanned(link).limit(max(0, most))).all()
    tasks = [
        LabelStudioTask(link_id=link.id, key=_key(owner, example, vote, worker), created_at=now)
        for example, vote, worker in found
    ]
    session.add_all(tasks)
    session.flush()
    for task, (example, vote, _) in zip(tasks, found, strict=True):
        session.add(
            LabelStudioAnnotation(
                link_id=link.id,
                label_studio_task_id=task.id,
                origin=Origin.OURS,
                key=task.key,
                result_sha256=json_sha256(task.key),
                changed_at=now,
                example_id=example.id if vote is None else None,
                vote_id=vote.id if vote is not None else None,
            )
        )
    session.flush()
    return len(tasks)


def due_items(session: Session, link: LabelStudioLink, *, now: datetime, most: int) -> list[CrowdItem]:
    """Return the items to upload, oldest first; refused ones once an hour."""
    owner = session.get_one(Task, link.task_id)
    rows = session.execute(
        _ours(LabelStudioAnnotation, link, LabelStudioTask.key, Example, Vote, Worker, Round, Context.key)
        .outerjoin(Vote, Vote.id == LabelStudioAnnotation.vote_id)
        .join(Example, Example.id == func.coalesce(LabelStudioAnnotation.example_id, Vote.example_id))
        .join(Worker, Worker.id == func.coalesce(Vote.worker_id, Example.author_id))
        .join(Round, Round.id == Example.round_id)
        .outerjoin(Context, Context.id == Example.context_id)
        .where(_is_due(now))
        .order_by(LabelStudioAnnotation.id)
        .limit(most)
    ).all()
    specs = {round.id: spec_of(round) for *_, round, _ in rows}
    return [
        CrowdItem(row.id, key, specs[round.id], round.number, pseudonym(owner, worker), context, example, vote)
        for row, key, example, vote, worker, round, context in rows
    ]


def record_attempt(session: Session, rows: Sequence[int], *, now: datetime) -> None:
    """Record that these items are being sent, so that a later run knows since when to look for them."""
    these = update(LabelStudioAnnotation).where(LabelStudioAnnotation.id.in_(rows))
    session.execute(these.values(changed_at=now, problem=None, external_id=None))


def record_failure(session: Session, rows: Sequence[int], reason: str, *, now: datetime) -> None:
    """Record that the upload of those items that have not arrived failed; they are retried after the backoff."""
    these = LabelStudioAnnotation.id.in_(rows) & LabelStudioAnnotation.external_id.is_(None)
    session.execute(update(LabelStudioAnnotation).where(these).values(changed_at=now, problem=reason))


def record_refusal(session: Session, row: int, reason: str) -> None:
    """Record that Label Studio refuses this item, so that it does not block the others."""
    refused = session.get_one(LabelStudioAnnotation, row)
    refused.external_id, refused.problem = -row, reason


def mark_uploaded(session: Session, link: LabelStudioLink, found: Mapping[str, UploadedItem], *, now: datetime) -> int:
    """Record the ids of items by their keys; return how many are new."""
    if lock_link(session, link).project != link.project:
        return 0  # The task was connected to another project in the meantime.
    unsent = _ours(LabelStudioAnnotation, link, LabelStudioTask).where(
        LabelStudioTask.external_id.is_(None), LabelStudioTask.key.in_(list(found))
    )
    rows = session.execute(unsent).all()
    for row, task in rows:
        uploaded = found[task.key]
        task.external_id, row.external_id = uploaded.task, uploaded.annotation or -row.id
        row.result_sha256, row.changed_at, row.problem = uploaded.sha256, now, None
    session.flush()
    return len(rows)


def crowd_counts(session: Session, link: LabelStudioLink) -> CrowdCounts:
    """Count what is uploaded, what waits and what was refused."""
    shown = _ours(func.count(), link).where(LabelStudioTask.external_id > 0)
    refused = _ours(func.count(), link).where(_is_refused())
    queue = find_queue(session, link)
    return CrowdCounts(
        shown=session.scalars(shown).one(),
        waiting=_count(session, unplanned(link)) + (queue.waiting if queue else 0),
        held=_count(session, held_back(link)) if link.kind is ProjectKind.VALIDATE else 0,
        refused=session.scalars(refused).one(),
        failure=_last_problem(session, link, _is_unsent()),
        refusal=_last_problem(session, link, _is_refused()),
        next_try=queue.next_try() if queue else None,
    )


def _last_problem(session: Session, link: LabelStudioLink, which: ColumnElement[bool]) -> str | None:
    told = _ours(LabelStudioAnnotation.problem, link).where(which, LabelStudioAnnotation.problem.is_not(None))
    last: str | None = session.scalar(told.order_by(LabelStudioAnnotation.changed_at.desc()).limit(1))
    return last


def _key(task: Task, example: Example, vote: Vote | None, worker: Worker) -> str:
    if vote is None:
        return f"crowd:example:{example.public_id}"
    return f"crowd:vote:{example.public_id}:{pseudonym(task, worker)}"


def _ours(first: Any, link: LabelStudioLink, *more: Any) -> Select[Any]:
    """Select from the annotations that we created in a project, with their tasks."""
    return (
        select(first, *more)
        .select_from(LabelStudioAnnotation)
        .join(LabelStudioTask, LabelStudioTask.id == LabelStudioAnnotation.label_studio_task_id)
        .where(LabelStudioAnnotation.link_id == link.id, LabelStudioAnnotation.origin == Origin.OURS)
    )


def _is_unsent() -> ColumnElement[bool]:
    return and_(LabelStudioAnnotation.external_id.is_(None), LabelStudioTask.external_id.is_(None))


def _is_refused() -> ColumnElement[bool]:
    return and_(LabelStudioAnnotation.external_id < 0, LabelStudioTask.external_id.is_(None))


def _is_due(now: datetime) -> ColumnElement[bool]:
    return or_(_is_unsent(), _is_refused() & (LabelStudioAnnotation.changed_at <= now - RETRY_REFUSED_AFTER))


def _count(session: Session, rows: Select[Any]) -> int:
    counted = rows.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
    return int(session.scalars(counted).one())
