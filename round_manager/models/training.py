"""Training jobs: one at a time per task, with progress and outcome."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.checks import at_least, check, filled, one_of, together, truth
from round_manager.models.table import Numbered, Table, index


class TrainingState(enum.StrEnum):
    """The state of a training; all but the first are final."""

    RUNNING = "running"
    ROTATED = "rotated"  # the new version is served
    REFUSED = "refused"  # the guard kept it out
    CANCELLED = "cancelled"  # cancelled by a user
    STOPPED = "stopped"  # its process was asked to stop
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
    # The last heartbeat of its process.
    beat_at: Mapped[datetime]
    stage: Mapped[str] = mapped_column(LimitedText(200), default="")
    steps: Mapped[int] = mapped_column(default=0)
    total: Mapped[int] = mapped_column(default=0)
    note: Mapped[str] = mapped_column(LimitedText(200), default="")
    # A request to cancel, which the process sees with its next heartbeat.
    cancel_at: Mapped[datetime | None] = mapped_column(default=None)
    cancel_by: Mapped[str | None] = mapped_column(LimitedText(120), default=None)
    model_version_id: Mapped[int | None] = mapped_column(default=None)
    # Figures of the new and the served versions on all held-out data.
    figures: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    finished_at: Mapped[datetime | None] = mapped_column(default=None)
    reason: Mapped[str | None] = mapped_column(default=None)
    # Identifies this start: a restarted machine may repeat host names and process ids.
    token: Mapped[str | None] = mapped_column(LimitedText(64), default=None)
    # From this time it cannot be cancelled.
    rotates_at: Mapped[datetime | None] = mapped_column(default=None)
    # For a failed training: whether a retry may help.
    retry: Mapped[bool | None] = mapped_column(default=None)
