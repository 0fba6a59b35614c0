"""Empty HITs: a worker accepted a validation HIT, and its examples were judged by others before its page was opened.

The worker came in vain, so the HIT is paid its reward without work. Without limits that would be the best paid work of
all, so all of the following is checked in the transaction that starts the page, while the task is locked:

- The page never held anything. A page that had work and lost it, because its time ran out or because the HIT was
  returned and accepted again, is not paid for what its worker did not do.
- The worker did not empty it: no other page of theirs holds examples of this task that they have not judged yet.
- A worker is paid for a limited number of empty HITs of a task in a day (UTC), `work.empty_hits_per_day`.
- A round pays for a limited share of its HITs, so that many accounts together cannot use up its budget either.

What is not paid is refused as before, and the worker is asked to return the HIT. The time on an empty page is not
credited, so that it can neither be topped up to the minimum hourly pay nor make other work look well paid.
"""

from datetime import datetime

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from round_manager.models import VALID_SESSIONS, Hit, HitKind, SessionStatus, WorkItem, WorkSession
from round_manager.work.errors import NothingToDo
from round_manager.work.sessions import SessionContext

# A round pays for this many empty HITs, or for one in so many of its validation HITs if that is more.
LEAST_PER_ROUND, ONE_IN = 10, 5


def pay_empty(session: Session, context: SessionContext, reason: NothingToDo, *, is_new: bool, now: datetime) -> None:
    """Let the page be submitted although it holds nothing, or raise the reason; the task must be locked."""
    work = context.work
    was_empty = work.empty_at is not None
    if not (is_new or was_empty) or _holds_work(session, context) or not _is_within_limits(session, context, now):
        raise reason
    work.empty_at = now
    session.flush()


def _holds_work(session: Session, context: SessionContext) -> bool:
    """Whether another open page of the worker holds items of this task that are not judged."""
    unjudged = exists().where(WorkItem.session_id == WorkSession.id, WorkItem.judgement.is_(None))
    others = select(WorkSession.id).join(Hit, Hit.id == WorkSession.hit_id)
    mine = others.where(WorkSession.worker_id == context.work.worker_id, WorkSession.id != context.work.id)
    held = mine.where(
        Hit.kind == HitKind.VALIDATE, Hit.task_id == context.hit.task_id, WorkSession.status == SessionStatus.OPEN
    )
    return session.scalar(held.where(unjudged).limit(1)) is not None


def _is_within_limits(session: Session, context: SessionContext, now: datetime) -> bool:
    paid = select(func.count()).select_from(WorkSession).join(Hit, Hit.id == WorkSession.hit_id)
    others = paid.where(WorkSession.id != context.work.id, WorkSession.empty_at.is_not(None))
    valid = others.where(WorkSession.status.in_(VALID_SESSIONS))
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    mine = valid.where(
        WorkSession.worker_id == context.work.worker_id,
        Hit.task_id == context.hit.task_id,
        WorkSession.empty_at >= today,
    )
    if (session.scalar(mine) or 0) >= context.spec.work.empty_hits_per_day:
        return False
    of_round = Hit.round_id == context.open_round.id
    posted = select(func.count()).select_from(Hit).where(of_round, Hit.kind == HitKind.VALIDATE)
    most = max(LEAST_PER_ROUND, (session.scalar(posted) or 0) // ONE_IN)
    return (session.scalar(valid.where(of_round)) or 0) < most
