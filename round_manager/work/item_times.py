"""Item times: how much of a session's active time went into each of its items.

A page counts its time as a whole. What the count gained since an item was finished before, or since the session was
opened, is the time of the item that is finished now; a text that is skipped is finished, too.
"""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.models import WorkItem, WorkSession
from round_manager.work.sessions import beat


def spend(session: Session, work: WorkSession, row: WorkItem, active_ms: int | None, *, now: datetime) -> int | None:
    """What the count gained goes to the item, and is returned; a page that sends no count had its last beat.

    A page that never told of its time has none, not nought. What a page sends is believed as far as a beat is.
    """
    count = beat(session, work, active_ms or 0, now=now)
    if not count:
        return None
    spent = select(func.sum(WorkItem.active_ms)).where(WorkItem.session_id == work.id)
    gained = count - int(session.scalar(spent) or 0)
    row.active_ms = (row.active_ms or 0) + gained
    session.flush()
    return gained
