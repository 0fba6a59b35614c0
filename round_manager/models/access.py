"""Access to frozen rounds over HTTP."""

from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.checks import filled, sha256
from round_manager.models.table import Numbered, Table, index


class DataToken(Numbered, Table):
    """A researcher's token for one task. Only its hash is stored; the token is shown once."""

    __tablename__ = "data_token"
    __table_args__ = (
        UniqueConstraint("key"),
        UniqueConstraint("sha256"),
        index("ix_data_token_task", "task_id", "id"),
        *filled("key"),
        *sha256("sha256"),
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
