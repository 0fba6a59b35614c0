"""Work pages: everything that a worker's page shows, read in one moment."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.errors import WorkRefused
from round_manager.models import Hit, HitKind, QuizResult, Round, SessionStatus, Task, WorkSession
from round_manager.specs import spec_of
from round_manager.work.attempts import writing_item
from round_manager.work.creation import CreationItem, creation_items
from round_manager.work.quizzes import attempts_left, results_of
from round_manager.work.session_end import missing
from round_manager.work.sessions import find_item, session_context
from round_manager.work.validation_work import ValidationItem, validation_items
from templates import TaskSpec


@dataclass(frozen=True)
class HitDetails:
    """A HIT with its task and the terms that it is worked on under."""

    hit: Hit
    task: Task
    spec: TaskSpec


@dataclass(frozen=True)
class PageState:
    """A session as its page shows it; items are of one of the three kinds."""

    hit: Hit
    spec: TaskSpec
    status: SessionStatus
    deadline: datetime
    active_ms: int
    creation: tuple[CreationItem, ...] = ()
    validation: tuple[ValidationItem, ...] = ()
    quiz: QuizResult | None = None
    attempts_left: int = 0
    missing: tuple[int, ...] = ()


def find_hit(session: Session, public_id: UUID) -> HitDetails:
    """The HIT of that public id, or a WorkRefused."""
    hit = session.scalar(select(Hit).where(Hit.public_id == public_id))
    if hit is None:
        raise WorkRefused("this HIT is not known here; return it and take another one")
    task = session.get_one(Task, hit.task_id)
    owner = task if hit.round_id is None else session.get_one(Round, hit.round_id)
    return HitDetails(hit, task, spec_of(owner))


def page_state(session: Session, work: WorkSession, *, now: datetime) -> PageState:
    """What the session's page shows now; nothing is held."""
    desk = session_context(session, work)
    kind = desk.hit.kind
    is_over = work.status is SessionStatus.OPEN and now >= work.expires_at
    return PageState(
        hit=desk.hit,
        spec=desk.spec,
        status=SessionStatus.EXPIRED if is_over else work.status,
        deadline=work.expires_at,
        active_ms=work.active_ms,
        creation=tuple(creation_items(session, work)) if kind is HitKind.CREATE else (),
        validation=tuple(validation_items(session, work)) if kind is HitKind.VALIDATE else (),
        quiz=next(reversed(results_of(session, work)), None) if kind is HitKind.QUIZ else None,
        attempts_left=attempts_left(session, work) if kind is HitKind.QUIZ else 0,
        # A round that was closed lets everybody hand in what they have.
        missing=tuple(missing(session, desk)) if desk.takes_work else (),
    )


def creation_item(session: Session, work: WorkSession, item: int) -> CreationItem:
    """The session's item of that number, where it is one to write."""
    row = writing_item(session, work, item)
    return next(one for one in creation_items(session, work) if one.item == row.item)


def validation_item(session: Session, work: WorkSession, item: int) -> ValidationItem:
    """The session's item of that number, where it is one to judge."""
    row = find_item(session, work, item)
    if row.context_id is not None:
        raise WorkRefused("this HIT asks for a text, not for judgements; load the page again")
    return next(one for one in validation_items(session, work) if one.item == row.item)
