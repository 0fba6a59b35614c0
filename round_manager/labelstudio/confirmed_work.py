"""Confirmed crowd work: what a project in Label Studio is to show and has no task for yet.

What nobody confirmed is never among it: anybody can forge a worker's name.
"""

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, null, or_, select
from sqlalchemy.orm import aliased

from round_manager.examples.votes import TAKES_VOTES
from round_manager.labelstudio.tasks import is_standing, is_used
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

# An example that came too late to count stays unconfirmed, though its author is known.
NOT_SHOWN = (ExampleStatus.UNCONFIRMED, ExampleStatus.WITHDRAWN)


def unplanned(link: LabelStudioLink) -> Select[Any, Any, Any]:
    """Examples for the creation project, votes for the other one: rows of example, vote and worker, by age."""
    return _examples(link) if link.kind is ProjectKind.CREATE else _votes(link).where(~_may_be_asked(link))


def held_back(link: LabelStudioLink) -> Select[Any, Any, Any]:
    """Votes that the validation project is to show once nobody there can be asked about their example any more."""
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
            is_standing(),
        )
    )
    return rows.exists()


def _may_be_asked(link: LabelStudioLink) -> ColumnElement[bool]:
    """Whether somebody in Label Studio may still judge the vote's example, and must not find this answer there.

    That is: a vote is wanted, a task for one stands open, or the votes differ, so that the policy may want more. What
    is flagged can come back to be judged, but a flag is no answer. Whether answers differ that were selected in a
    passage, only who decides can tell: until then they may.
    """
    other = aliased(Vote)
    votes = select(func.count()).select_from(other).where(other.example_id == Example.id)
    differing = select(other.id).where(other.example_id == Example.id, other.label != Example.label)
    of_example = (UncountedVote.round_id == Example.round_id, UncountedVote.example_id == Example.id)
    uncounted = select(UncountedVote.vote_id).where(Example.label.is_(None), *of_example)
    to_check = select(LabelStudioTask.id).where(
        LabelStudioTask.link_id == link.id, LabelStudioTask.example_id == Example.id, is_standing(), ~is_used()
    )
    is_short = votes.scalar_subquery() < Example.votes_wanted
    undecided = or_(is_short, differing.exists(), uncounted.exists(), to_check.exists())
    return and_(
        Vote.flag.is_(None),
        Round.status.in_(TAKES_VOTES),
        or_(Example.status == ExampleStatus.FLAGGED, and_(Example.status == ExampleStatus.PENDING, undecided)),
    )
