"""Cancelling: HITs that were planned and never sent are given up, and their money is free again."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.models import EntryKind, Hit, HitKind, HitStatus, Round, Task
from round_manager.money.ledger import release

GIVEN_UP = "given up before it was sent"


def cancel_planned(
    session: Session, marketplace: str, task: Task, kind: HitKind | None = None, *, who: str, why: str, now: datetime
) -> int:
    """Gives up the task's HITs, of one kind or of all, that no process has begun to send; how many there were."""
    which = [Hit.marketplace == marketplace, Hit.task_id == task.id]
    if kind is not None:
        which.append(Hit.kind == kind)
    return _cancel(session, which, who=who, why=why, now=now)


def cancel_creation(session: Session, round: Round, *, who: str, why: str, now: datetime) -> int:
    """Gives up the round's HITs to create that no process has begun to send, on every marketplace; how many."""
    which = [Hit.round_id == round.id, Hit.kind == HitKind.CREATE]
    return _cancel(session, which, who=who, why=why, now=now)


def cancel_hits(session: Session, hits: Sequence[Hit], *, who: str, why: str, now: datetime) -> int:
    """Gives up those of the HITs that no process has begun to send; how many."""
    return _cancel(session, [Hit.id.in_([hit.id for hit in hits])], who=who, why=why, now=now)


def _cancel(session: Session, which: Sequence[ColumnElement[bool]], *, who: str, why: str, now: datetime) -> int:
    wanted = select(Hit).where(*which, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_(None))
    # What another process takes at this moment to send it is left to that process.
    hits = session.scalars(wanted.order_by(Hit.id).with_for_update(skip_locked=True)).all()
    for hit in hits:
        hit.status, hit.last_error = HitStatus.REFUSED, GIVEN_UP
        for one in (EntryKind.REWARD, EntryKind.BONUS):
            release(session, [hit.id], one, now=now)
        audit.note(session, "cancelled", hit, who=who, why=why, now=now, of=hit)
    return len(hits)
