"""Cancelling: HITs that were planned and never sent are given up, and their money is free again."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.ledger import release
from round_manager.models import EntryKind, Hit, HitKind, HitStatus, Task

GIVEN_UP = "given up before it was sent"


def cancel_planned(
    session: Session, marketplace: str, task: Task, kind: HitKind | None = None, *, who: str, why: str, now: datetime
) -> int:
    """Gives up the task's HITs, of one kind or of all, that no process has begun to send; how many there were."""
    wanted = select(Hit).where(
        Hit.marketplace == marketplace,
        Hit.task_id == task.id,
        Hit.status == HitStatus.PLANNED,
        Hit.sent_at.is_(None),
    )
    if kind is not None:
        wanted = wanted.where(Hit.kind == kind)
    # What another process takes at this moment to send it is left to that process.
    hits = session.scalars(wanted.order_by(Hit.id).with_for_update(skip_locked=True)).all()
    for hit in hits:
        hit.status, hit.last_error = HitStatus.REFUSED, GIVEN_UP
        for one in (EntryKind.REWARD, EntryKind.BONUS):
            release(session, [hit.id], one, now=now)
        audit.note(session, "cancelled", hit, who=who, why=why, now=now, of=hit)
    return len(hits)
