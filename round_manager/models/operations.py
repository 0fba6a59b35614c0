"""Operating Outfox: the audit log, tokens for the data of closed rounds, and the state of the manager's steps."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models import table


class AuditEntry(table.Numbered):
    """One recorded action: actor, time, reason, and the row before and after. Never changed or deleted."""

    __tablename__ = "audit_entry"
    __table_args__ = (
        table.references(round_id="round.id", task_id="round.task_id"),
        table.index("ix_audit_entry_task", "task_id", "id"),
        table.index("ix_audit_entry_round", "round_id", "id", where="round_id IS NOT NULL"),
        table.index("ix_audit_entry_subject", "subject", "subject_id", "id"),
        *table.filled("actor", "action", "subject", "reason"),
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


class DataToken(table.Numbered):
    """A researcher's token for one task. Only its hash is stored; the token is shown once."""

    __tablename__ = "data_token"
    __table_args__ = (
        UniqueConstraint("key"),
        UniqueConstraint("sha256"),
        table.index("ix_data_token_task", "task_id", "id"),
        *table.filled("key"),
        *table.sha256("sha256"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # The public part of the token, by which the owner refers to it.
    key: Mapped[str] = mapped_column(LimitedText(20))
    sha256: Mapped[str]
    # Who the token is for.
    note: Mapped[str] = mapped_column(LimitedText(200), default="")
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None] = mapped_column(default=None)


class ManagerStep(table.Numbered):
    """The state of one step since it last changed: failing, waiting, or neither."""

    __tablename__ = "manager_step"
    __table_args__ = (
        UniqueConstraint("name", "task"),
        *table.filled("name", "ran_by", "waits", "error"),
        *table.at_least(0, "failures"),
        table.together("failing", "error IS NOT NULL", "failing_since"),
        table.check("next_try", "next_try_at IS NULL OR error IS NOT NULL"),
    )

    name: Mapped[str] = mapped_column(LimitedText(40))
    # The task's name; empty for a step that covers all tasks.
    task: Mapped[str] = mapped_column(LimitedText(40), default="")
    ran_at: Mapped[datetime]
    ran_by: Mapped[str] = mapped_column(LimitedText(120))
    waits: Mapped[str | None] = mapped_column(default=None)
    error: Mapped[str | None] = mapped_column(default=None)
    failing_since: Mapped[datetime | None] = mapped_column(default=None)
    failures: Mapped[int] = mapped_column(default=0)
    # The earliest time of the next retry.
    next_try_at: Mapped[datetime | None] = mapped_column(default=None)
