"""Workers, as they first turn up."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.errors import DuplicateError
from round_manager.models import Worker


def ensure_worker(session: Session, marketplace: str, external_id: str, *, now: datetime) -> Worker:
    """The worker whom the marketplace, or Label Studio, calls so; known from now on."""
    wanted = select(Worker).where(Worker.marketplace == marketplace, Worker.external_id == external_id)
    found = session.scalar(wanted)
    if found is not None:
        return found
    worker = Worker(marketplace=marketplace, external_id=external_id, first_seen_at=now)
    try:
        with session.begin_nested():
            session.add(worker)
    except DuplicateError:  # Another process met them at this moment.
        return session.scalars(wanted).one()
    return worker
