"""Spent checks: tasks in Label Studio that can take no vote any more and of which no annotation was read."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from round_manager.examples.votes import TAKES_VOTES
from round_manager.labelstudio.mirror import set_aside_task
from round_manager.labelstudio.tasks import hold_link, is_standing
from round_manager.models import (
    Example,
    ExampleStatus,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Round,
)

# What is flagged can come back to be judged.
MAY_BE_JUDGED = (ExampleStatus.PENDING, ExampleStatus.FLAGGED)


@dataclass(frozen=True)
class Spent:
    """A check whose example is decided or whose round is over; without a number where it may never have been sent."""

    row: int
    key: str
    number: int | None


def spent_checks(session: Session, link: LabelStudioLink) -> list[Spent]:
    """The project's checks that nobody is to be offered any more, as far as we know what stands there; by age."""
    read = select(LabelStudioAnnotation.id).where(LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id)
    takes_votes = and_(Round.status.in_(TAKES_VOTES), Example.status.in_(MAY_BE_JUDGED))
    rows = session.execute(
        select(LabelStudioTask.id, LabelStudioTask.key, LabelStudioTask.external_id)
        .join(Example, Example.id == LabelStudioTask.example_id)
        .join(Round, Round.id == Example.round_id)
        .where(LabelStudioTask.link_id == link.id, is_standing(), ~takes_votes, ~read.exists())
        .order_by(LabelStudioTask.id)
    )
    return [Spent(row, key, number) for row, key, number in rows]


def forget_checks(session: Session, link: LabelStudioLink, rows: Collection[int]) -> None:
    """These stand in Label Studio no more."""
    hold_link(session, link)
    gone = select(LabelStudioTask).where(LabelStudioTask.id.in_(rows), is_standing())
    for task in session.scalars(gone.execution_options(populate_existing=True)).all():
        set_aside_task(task)
    session.flush()
