"""The contexts of a task, for tests that need one of them."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.models import Context


def live_contexts(session: Session, task_id: int) -> list[Context]:
    """Return the contexts that are still handed out, in the owner's order."""
    living = select(Context).where(Context.task_id == task_id, Context.retired_at.is_(None))
    return list(session.scalars(living.order_by(Context.position)))
