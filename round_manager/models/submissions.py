"""Models that researchers submit for evaluation, and what a task's owner allows them."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models import table

ENDED = "state IN ('succeeded', 'failed', 'cancelled')"


class SubmissionState(enum.StrEnum):
    """The state of a submitted model; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SubmissionTerms(table.Numbered):
    """What a task's owner allows each data token to submit; a task without terms takes no submissions."""

    __tablename__ = "submission_terms"
    __table_args__ = (
        UniqueConstraint("task_id"),
        table.truth("is_open"),
        *table.at_least(1, "per_day", "queued", "file_bytes", "total_bytes", "memory_mb", "seconds"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    is_open: Mapped[bool] = mapped_column(default=True)
    # Per token: submissions in 24 hours, those that wait or run at once, and the bytes of all that are kept.
    per_day: Mapped[int]
    queued: Mapped[int]
    total_bytes: Mapped[int]
    # Per submission.
    file_bytes: Mapped[int]
    memory_mb: Mapped[int]
    seconds: Mapped[int]
    changed_at: Mapped[datetime]
    # Those on which models are measured, separated by commas; None for the default ones.
    axes: Mapped[str | None] = mapped_column(LimitedText(200), default=None)

    @property
    def measured_axes(self) -> tuple[str, ...]:
        """The axes on which models are measured."""
        return tuple(self.axes.split(",")) if self.axes else ()


class ModelSubmission(table.Numbered):
    """A model, or its predictions, that a researcher has submitted; the files are outside the database."""

    __tablename__ = "model_submission"
    __table_args__ = (
        UniqueConstraint("key"),
        table.index("uq_model_submission_content", "task_id", "sha256", unique=True, where="removed_at IS NULL"),
        table.index("uq_model_submission_name", "task_id", "name", unique=True, where="removed_at IS NULL"),
        table.index("uq_model_submission_running", "task_id", unique=True, where="state = 'running'"),
        table.index("ix_model_submission_token", "token_id", "created_at"),
        table.index("ix_model_submission_queue", "task_id", "state", "id"),
        table.one_of("state", SubmissionState),
        table.truth("is_named"),
        *table.filled("key", "name", "kind", "code", "host"),
        *table.sha256("sha256"),
        *table.at_least(1, "size"),
        *table.at_least(0, "starts", "steps", "total"),
        table.together("finished", ENDED, "finished_at"),
        table.together("failed", "state = 'failed'", "code"),
        table.together("running", "state = 'running'", "start_token"),
    )

    key: Mapped[str] = mapped_column(LimitedText(20))
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    token_id: Mapped[int] = mapped_column(ForeignKey("data_token.id", ondelete="RESTRICT"))
    name: Mapped[str] = mapped_column(LimitedText(60))
    # Whether others see its name.
    is_named: Mapped[bool]
    kind: Mapped[str] = mapped_column(LimitedText(20))
    # What its labels mean, and the data sets of predictions.
    options: Mapped[dict[str, Any]]
    # Of the content and of the options.
    sha256: Mapped[str]
    size: Mapped[int]
    created_at: Mapped[datetime]
    state: Mapped[SubmissionState] = mapped_column(default=SubmissionState.QUEUED)
    starts: Mapped[int] = mapped_column(default=0)
    started_at: Mapped[datetime | None] = mapped_column(default=None)
    finished_at: Mapped[datetime | None] = mapped_column(default=None)
    # The process that evaluates it, and this start of it.
    host: Mapped[str | None] = mapped_column(LimitedText(255), default=None)
    pid: Mapped[int | None] = mapped_column(default=None)
    start_token: Mapped[str | None] = mapped_column(LimitedText(64), default=None)
    steps: Mapped[int] = mapped_column(default=0)
    total: Mapped[int] = mapped_column(default=0)
    cancel_at: Mapped[datetime | None] = mapped_column(default=None)
    code: Mapped[str | None] = mapped_column(LimitedText(60), default=None)
    message: Mapped[str | None] = mapped_column(default=None)
    # Its id in the stored evaluations, and its figures on all rows of each data set.
    model_id: Mapped[str | None] = mapped_column(LimitedText(80), default=None)
    results: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    # Its files and results are gone; the row counts towards the token's limits.
    removed_at: Mapped[datetime | None] = mapped_column(default=None)
