"""Creating workers when they first appear."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.errors import DuplicateError
from round_manager.models import Worker


def ensure_worker(session: Session, marketplace: str, external_id: str, *, now: datetime) -> Worker:
    """Return the worker with this id on a marketplace or in Label Studio; create them if they are new."""
    wanted = select(Worker).where(Worker.marketplace == marketplace, Worker.external_id == external_id)
    found = session.scalar(wanted)
    if found is not None:
        return found
    worker = Worker(marketplace=marketplace, external_id=external_id, first_seen_at=now)
    try:
        with session.begin_nested():
            session.add(worker)
    except DuplicateError:  # Another process created them in the meantime.
        return session.scalars(wanted).one()
    return worker
