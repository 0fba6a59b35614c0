"""Confirmed crowd work that a project in Label Studio should show and has no task for yet.

Unconfirmed work is left out: until the marketplace confirms it, the worker's name can be forged.
"""

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, null, or_, select
from sqlalchemy.orm import aliased

from round_manager.labelstudio.tasks import is_active, is_answered
from round_manager.models import (
    Example,
    ExampleStatus,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
    Round,
    SessionStatus,
    Source,
    UncountedVote,
    Vote,
    Worker,
    WorkSession,
)
from round_manager.tasks.rounds import LIVE

# An example that was submitted too late to count stays unconfirmed, though its author is known.
NOT_SHOWN = (ExampleStatus.UNCONFIRMED, ExampleStatus.WITHDRAWN)


def unplanned(link: LabelStudioLink) -> Select[Any, Any, Any]:
    """Select examples for the creation project, votes for the other: example, vote and worker; oldest first."""
    return _examples(link) if link.kind is ProjectKind.CREATE else _votes(link).where(~_may_be_asked(link))


def held_back(link: LabelStudioLink) -> Select[Any, Any, Any]:
    """Select votes that the validation project shows once no validator there can be asked about their example."""
    return _votes(link).where(_may_be_asked(link))


def _examples(link: LabelStudioLink) -> Select[Any, Any, Any]:
    return (
        select(Example, null(), Worker)
        .join(WorkSession, WorkSession.id == Example.session_id)
        .join(Worker, Worker.id == Example.author_id)
        .where(
            Example.task_id == link.task_id,
            Example.source == Source.PAGES,
            Example.status.not_in(NOT_SHOWN),
            WorkSession.status == SessionStatus.CONFIRMED,
            ~_planned(link, LabelStudioAnnotation.example_id, Example.id),
        )
        .order_by(Example.id)
    )


def _votes(link: LabelStudioLink) -> Select[Any, Any, Any]:
    return (
        select(Example, Vote, Worker)
        .join(Vote, Vote.example_id == Example.id)
        .join(WorkSession, WorkSession.id == Vote.session_id)
        .join(Worker, Worker.id == Vote.worker_id)
        .join(Round, Round.id == Example.round_id)
        .where(
            Example.task_id == link.task_id,
            Vote.source == Source.PAGES,
            WorkSession.status == SessionStatus.CONFIRMED,
            ~_planned(link, LabelStudioAnnotation.vote_id, Vote.id),
        )
        .order_by(Vote.id)
    )


def _planned(link: LabelStudioLink, column: Any, subject: Any) -> ColumnElement[bool]:
    rows = (
        select(LabelStudioAnnotation.id)
        .join(LabelStudioTask, LabelStudioTask.id == LabelStudioAnnotation.label_studio_task_id)
        .where(
            LabelStudioAnnotation.link_id == link.id,
            LabelStudioAnnotation.origin == Origin.OURS,
            column == subject,
            column.is_not(None),
            is_active(),
        )
    )
    return rows.exists()


def _may_be_asked(link: LabelStudioLink) -> ColumnElement[bool]:
    """Whether a validator in Label Studio may still judge the vote's example, and so must not see this answer.

    That is the case if a vote is missing, a task for one is open, or the votes differ, so that the policy may ask for
    more. A flagged example can return to validation, but a flag is not an answer. Whether selected answers differ is
    only known once they are compared; until then they may.
    """
    other = aliased(Vote)
    votes = select(func.count()).select_from(other).where(other.example_id == Example.id)
    differing = select(other.id).where(other.example_id == Example.id, other.label != Example.label)
    of_example = (UncountedVote.round_id == Example.round_id, UncountedVote.example_id == Example.id)
    uncounted = select(UncountedVote.vote_id).where(Example.label.is_(None), *of_example)
    to_check = select(LabelStudioTask.id).where(
        LabelStudioTask.link_id == link.id, LabelStudioTask.example_id == Example.id, is_active(), ~is_answered()
    )
    is_short = votes.scalar_subquery() < Example.votes_wanted
    undecided = or_(is_short, differing.exists(), uncounted.exists(), to_check.exists())
    return and_(
        Vote.flag.is_(None),
        Round.status.in_(LIVE),
        or_(Example.status == ExampleStatus.FLAGGED, and_(Example.status == ExampleStatus.PENDING, undecided)),
    )
