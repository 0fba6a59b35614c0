"""The audit log: who did what to which row, when and why."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from round_manager.models import AuditEntry, DataToken, Hit, LedgerEntry, ModelSubmission, Qualification, Round, Task
from round_manager.models.table import Numbered

NO_REASON = "no reason was given"


def note(
    session: Session,
    action: str,
    row: Numbered,
    *,
    actor: str,
    reason: str,
    now: datetime,
    of: Hit | LedgerEntry | Qualification | Round | Task | DataToken | ModelSubmission | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Record one change of a row; `action` is a verb in the past tense, `of` gives the task and the round."""
    entry = AuditEntry(
        at=now,
        actor=actor,
        action=action,
        reason=reason.strip() or NO_REASON,
        task_id=of.id if isinstance(of, Task) else of.task_id if of else None,
        round_id=of.id if isinstance(of, Round) else getattr(of, "round_id", None),
        subject=row.__tablename__,
        subject_id=row.id,
        before=before,
        after=after,
    )
    session.add(entry)
