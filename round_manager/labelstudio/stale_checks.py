"""Stale checks: validation tasks in Label Studio that can no longer take a vote, and that have no annotation.

They are deleted, so that no validator works in vain. Annotated tasks stay.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from round_manager.database.store import Store
from round_manager.labelstudio.links import archive_task
from round_manager.labelstudio.port import LabelStudio
from round_manager.labelstudio.tasks import adopt_tasks, find_task_ids, is_active, lock_link
from round_manager.models import (
    Example,
    ExampleStatus,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Round,
)
from round_manager.tasks.rounds import LIVE

TASKS_AT_ONCE = 100
# A flagged example can return to validation.
MAY_BE_JUDGED = (ExampleStatus.PENDING, ExampleStatus.FLAGGED)


@dataclass(frozen=True)
class StaleCheck:
    """A check whose example is decided or whose round is over; `task_id` is None if it may not have been sent."""

    row: int
    key: str
    task_id: int | None


def remove_stale_checks(store: Store, label_studio: LabelStudio, link: LabelStudioLink) -> int:
    """Delete the project's stale checks; return how many. If it is interrupted, the next call finishes."""
    stale = _sent_checks(store, label_studio, link)
    removed = 0
    for first in range(0, len(stale), TASKS_AT_ONCE):
        batch = {one.task_id: one.row for one in stale[first : first + TASKS_AT_ONCE] if one.task_id is not None}
        remaining = label_studio.delete_unannotated(link.project, list(batch))
        gone = [row for task_id, row in batch.items() if task_id not in remaining]
        with store.write() as session:
            archive_checks(session, link, gone)
        removed += len(gone)
    return removed


def stale_checks(session: Session, link: LabelStudioLink) -> list[StaleCheck]:
    """Return the project's stale checks, as far as its annotations were read; oldest first."""
    read = select(LabelStudioAnnotation.id).where(LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id)
    takes_votes = and_(Round.status.in_(LIVE), Example.status.in_(MAY_BE_JUDGED))
    rows = session.execute(
        select(LabelStudioTask.id, LabelStudioTask.key, LabelStudioTask.external_id)
        .join(Example, Example.id == LabelStudioTask.example_id)
        .join(Round, Round.id == Example.round_id)
        .where(LabelStudioTask.link_id == link.id, is_active(), ~takes_votes, ~read.exists())
        .order_by(LabelStudioTask.id)
    )
    return [StaleCheck(row, key, task_id) for row, key, task_id in rows]


def archive_checks(session: Session, link: LabelStudioLink, rows: Collection[int]) -> None:
    """Record that these checks no longer exist in Label Studio."""
    lock_link(session, link)
    gone = select(LabelStudioTask).where(LabelStudioTask.id.in_(rows), is_active())
    for task in session.scalars(gone.execution_options(populate_existing=True)).all():
        archive_task(task)
    session.flush()


def _sent_checks(store: Store, label_studio: LabelStudio, link: LabelStudioLink) -> list[StaleCheck]:
    """Return the stale checks that exist in Label Studio; those of an interrupted push are looked up first."""
    with store.read() as session:
        stale = stale_checks(session, link)
    unconfirmed = {one.key: one.row for one in stale if one.task_id is None}
    if not unconfirmed:
        return stale
    found = find_task_ids(label_studio, link, set(unconfirmed))
    with store.write() as session:
        adopt_tasks(session, link, found)
        # A push that sends one of them right now finds its row archived, and deletes the task again.
        archive_checks(session, link, [row for key, row in unconfirmed.items() if key not in found])
        return stale_checks(session, link)
