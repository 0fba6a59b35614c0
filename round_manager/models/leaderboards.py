"""Leaderboards: boards with weights of their own, snapshots of them, and models that are left out."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models import table


class Board(table.Numbered):
    """A named leaderboard of a task with weights of its own. It never changes; it can be removed."""

    __tablename__ = "board"
    __table_args__ = (
        UniqueConstraint("key"),
        table.index("ix_board_task", "task_id", "id"),
        table.index("uq_board_name", "task_id", "folded_name", where="removed_at IS NULL", unique=True),
        table.index("ix_board_token", "token_id", "created_at", where="token_id IS NOT NULL"),
        *table.filled("key", "name", "folded_name", "created_by"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # In links.
    key: Mapped[str] = mapped_column(LimitedText(20))
    name: Mapped[str] = mapped_column(LimitedText(60))
    # Two names that look alike are one.
    folded_name: Mapped[str] = mapped_column(LimitedText(200))
    # By axis; an axis without a weight does not count.
    weights: Mapped[dict[str, Any]]
    # By data set; a data set without a weight has the default one.
    data_weights: Mapped[dict[str, Any]]
    # The board whose weights it began with; none if those were the default ones.
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("board.id", ondelete="RESTRICT"), default=None)
    # The token it was saved with; none if the owner saved it.
    token_id: Mapped[int | None] = mapped_column(ForeignKey("data_token.id", ondelete="RESTRICT"), default=None)
    created_by: Mapped[str] = mapped_column(LimitedText(120))
    created_at: Mapped[datetime]
    removed_at: Mapped[datetime | None] = mapped_column(default=None)


class BoardSnapshot(table.Numbered):
    """A leaderboard as it was: figures, weights, models and time. It never changes."""

    __tablename__ = "board_snapshot"
    __table_args__ = (
        UniqueConstraint("task_id", "sha256"),
        *table.filled("name", "content", "created_by"),
        *table.sha256("sha256"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    board_id: Mapped[int | None] = mapped_column(ForeignKey("board.id", ondelete="RESTRICT"), default=None)
    # The name of the board.
    name: Mapped[str] = mapped_column(LimitedText(60))
    # Canonical JSON, with its hash.
    content: Mapped[str] = mapped_column(LimitedText(1 << 24))
    sha256: Mapped[str]
    created_by: Mapped[str] = mapped_column(LimitedText(120))
    created_at: Mapped[datetime]


class ExcludedModel(table.Numbered):
    """A model that the leaderboard of a task leaves out; the row is removed when it is shown again."""

    __tablename__ = "excluded_model"
    __table_args__ = (UniqueConstraint("task_id", "model"), *table.filled("model"))

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # The id under which its evaluations are stored.
    model: Mapped[str] = mapped_column(LimitedText(200))
    excluded_at: Mapped[datetime]
