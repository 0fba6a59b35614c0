"""What the manager's steps came to, for whoever looks from another process, and for the manager that comes next."""

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.checks import at_least, check, filled, together
from round_manager.models.table import Numbered, Table


class ManagerStep(Numbered, Table):
    """How a step stood when that last changed: it fails, it waits for something, or neither."""

    __tablename__ = "manager_step"
    __table_args__ = (
        UniqueConstraint("name", "task"),
        *filled("name", "ran_by", "waits", "error"),
        *at_least(0, "failures"),
        together("failing", "error IS NOT NULL", "failing_since"),
        check("next_try", "next_try_at IS NULL OR error IS NOT NULL"),
    )

    name: Mapped[str] = mapped_column(LimitedText(40))
    # The task's name; empty for what is done for all of them at once.
    task: Mapped[str] = mapped_column(LimitedText(40), default="")
    ran_at: Mapped[datetime]
    ran_by: Mapped[str] = mapped_column(LimitedText(120))
    waits: Mapped[str | None] = mapped_column(default=None)
    error: Mapped[str | None] = mapped_column(default=None)
    failing_since: Mapped[datetime | None] = mapped_column(default=None)
    failures: Mapped[int] = mapped_column(default=0)
    # Not before this, where trying again may help.
    next_try_at: Mapped[datetime | None] = mapped_column(default=None)
