"""Trainings of the next model: one at a time for each task, with how far they are and how they ended."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.checks import at_least, check, filled, one_of, together, truth
from round_manager.models.table import Numbered, Table, index


class TrainingState(enum.StrEnum):
    """Where a training is; all but the first are ends."""

    RUNNING = "running"
    ROTATED = "rotated"  # the new version answers
    REFUSED = "refused"  # the guard kept it out
    CANCELLED = "cancelled"  # somebody did not want it any more
    STOPPED = "stopped"  # its process was told to end
    FAILED = "failed"


class TrainingJob(Numbered, Table):
    """One training on all rounds up to `round_id`, by one process."""

    __tablename__ = "training_job"
    __table_args__ = (
        ForeignKeyConstraint(["round_id", "task_id"], ["round.id", "round.task_id"], ondelete="RESTRICT"),
        ForeignKeyConstraint(
            ["model_version_id", "task_id"], ["model_version.id", "model_version.task_id"], ondelete="RESTRICT"
        ),
        index("uq_training_job_running", "task_id", unique=True, where="state = 'running'"),
        index("ix_training_job_task", "task_id", "id"),
        one_of("state", TrainingState),
        *filled("mode", "started_by", "host"),
        *at_least(0, "pid", "steps", "total"),
        together("finished", "state <> 'running'", "finished_at"),
        together("ended", "state <> 'running'", "reason"),
        *filled("reason"),
        together("cancelled", "cancel_at IS NOT NULL", "cancel_by"),
        check("candidate", "state NOT IN ('rotated', 'refused') OR model_version_id IS NOT NULL"),
        truth("retry"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    round_id: Mapped[int]
    state: Mapped[TrainingState] = mapped_column(default=TrainingState.RUNNING)
    mode: Mapped[str] = mapped_column(LimitedText(20))
    started_by: Mapped[str] = mapped_column(LimitedText(120))
    host: Mapped[str] = mapped_column(LimitedText(255))
    pid: Mapped[int]
    started_at: Mapped[datetime]
    # When its process was last heard of.
    beat_at: Mapped[datetime]
    stage: Mapped[str] = mapped_column(LimitedText(200), default="")
    steps: Mapped[int] = mapped_column(default=0)
    total: Mapped[int] = mapped_column(default=0)
    note: Mapped[str] = mapped_column(LimitedText(200), default="")
    # Somebody's wish; the process hears of it with its next beat.
    cancel_at: Mapped[datetime | None] = mapped_column(default=None)
    cancel_by: Mapped[str | None] = mapped_column(LimitedText(120), default=None)
    model_version_id: Mapped[int | None] = mapped_column(default=None)
    # The new version and the one that answers, on everything that is held out.
    figures: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    finished_at: Mapped[datetime | None] = mapped_column(default=None)
    reason: Mapped[str | None] = mapped_column(default=None)
    # Of its start alone: a machine that begins anew repeats its name and the numbers of its processes.
    token: Mapped[str | None] = mapped_column(LimitedText(64), default=None)
    # From then on it is too late to cancel it.
    rotates_at: Mapped[datetime | None] = mapped_column(default=None)
    # Of one that failed: whether trying again may help.
    retry: Mapped[bool | None] = mapped_column(default=None)
