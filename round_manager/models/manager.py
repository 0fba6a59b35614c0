"""The state of the manager's steps, for other processes and for the next manager."""

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.checks import at_least, check, filled, together
from round_manager.models.table import Numbered, Table


class ManagerStep(Numbered, Table):
    """The state of one step since it last changed: failing, waiting, or neither."""

    __tablename__ = "manager_step"
    __table_args__ = (
        UniqueConstraint("name", "task"),
        *filled("name", "ran_by", "waits", "error"),
        *at_least(0, "failures"),
        together("failing", "error IS NOT NULL", "failing_since"),
        check("next_try", "next_try_at IS NULL OR error IS NOT NULL"),
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
