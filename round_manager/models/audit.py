"""The audit log."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.checks import filled
from round_manager.models.table import Numbered, Table, index


class AuditEntry(Numbered, Table):
    """One recorded action: actor, time, reason, and the row before and after. Never changed or deleted."""

    __tablename__ = "audit_entry"
    __table_args__ = (
        ForeignKeyConstraint(["round_id", "task_id"], ["round.id", "round.task_id"], ondelete="RESTRICT"),
        index("ix_audit_entry_task", "task_id", "id"),
        index("ix_audit_entry_round", "round_id", "id", where="round_id IS NOT NULL"),
        index("ix_audit_entry_subject", "subject", "subject_id", "id"),
        *filled("actor", "action", "subject", "reason"),
    )

    at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(LimitedText(120))
    # A verb in the past, for example `opened`, `closed`, `rotated`.
    action: Mapped[str] = mapped_column(LimitedText(40))
    reason: Mapped[str]
    task_id: Mapped[int | None] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"), default=None)
    round_id: Mapped[int | None] = mapped_column(default=None)
    # The table and the row, for example `round` and its id.
    subject: Mapped[str] = mapped_column(LimitedText(40))
    subject_id: Mapped[int]
    before: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    after: Mapped[dict[str, Any] | None] = mapped_column(default=None)
