"""Finished pages: whether work that was handed in on the marketplace was done on the page of its HIT.

Whoever accepts a HIT can hand it in straight at the marketplace; only our pages know whether anything was done.
"""

from sqlalchemy import ColumnElement, and_, exists, or_, select

from round_manager.models import (
    Assignment,
    Example,
    Hit,
    HitKind,
    QuizResult,
    Round,
    SessionStatus,
    WorkItem,
    WorkSession,
)
from round_manager.tasks.rounds import LIVE


def is_page_finished() -> ColumnElement[bool]:
    """Of an assignment and its HIT: whether its worker's page is confirmed and lacks nothing, or its round is over."""
    mine = (
        WorkSession.assignment_id == Assignment.id,
        WorkSession.worker_id == Assignment.worker_id,
        WorkSession.status == SessionStatus.CONFIRMED,
    )
    # Who was at work when their round was closed hands in what they have.
    is_over = exists().where(Round.id == Hit.round_id, Round.status.not_in(LIVE)).correlate(Hit)
    return exists().where(*mine, or_(_lacks_nothing(), is_over)).correlate(Assignment, Hit)


def _lacks_nothing() -> ColumnElement[bool]:
    taken = exists().where(QuizResult.session_id == WorkSession.id)
    unjudged = exists().where(WorkItem.session_id == WorkSession.id, WorkItem.judgement.is_(None))
    written = select(Example.id).where(
        Example.session_id == WorkItem.session_id, Example.session_id.is_not(None), Example.item == WorkItem.item
    )
    unwritten = exists().where(WorkItem.session_id == WorkSession.id, ~written.exists())
    return or_(
        and_(Hit.kind == HitKind.QUIZ, taken),
        and_(Hit.kind == HitKind.VALIDATE, ~unjudged),
        and_(Hit.kind == HitKind.CREATE, ~unwritten),
    )
