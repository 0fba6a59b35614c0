"""Trained models, their evaluations, and training jobs."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models import table


class ModelVersion(table.Numbered):
    """An immutable trained model; the same files for one task are the same version."""

    __tablename__ = "model_version"
    __table_args__ = (
        table.references(parent_id="model_version.id", task_id="model_version.task_id"),
        UniqueConstraint("name"),
        UniqueConstraint("task_id", "sha256"),
        UniqueConstraint("id", "task_id"),
        *table.filled("name", "uri"),
        *table.sha256("sha256", "data_sha256"),
        table.check("parent", "parent_id <> id"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # Its name in verdicts, the registry and manifests.
    name: Mapped[str] = mapped_column(LimitedText(120))
    parent_id: Mapped[int | None] = mapped_column(default=None)
    uri: Mapped[str]
    sha256: Mapped[str]
    # Every file with its hash.
    files: Mapped[dict[str, Any]]
    # Its training data: seed and rounds with their hashes.
    data: Mapped[dict[str, Any]]
    data_sha256: Mapped[str]
    settings: Mapped[dict[str, Any]]
    metrics: Mapped[dict[str, Any]]
    code_version: Mapped[str] = mapped_column(LimitedText(80))
    created_at: Mapped[datetime]


class Evaluation(table.Numbered):
    """One model version measured on one frozen data set, on five axes."""

    __tablename__ = "evaluation"
    __table_args__ = (
        UniqueConstraint("model_version_id", "dataset_sha256", "metric"),
        table.index("ix_evaluation_round", "round_id"),
        *table.filled("dataset", "metric"),
        *table.sha256("dataset_sha256"),
        *table.at_least(1, "row_count"),
        *table.at_least(0, "rows_per_second", "memory_bytes"),
        table.share("performance"),
        table.share("fairness"),
        table.share("robustness"),
    )

    model_version_id: Mapped[int] = mapped_column(ForeignKey("model_version.id", ondelete="RESTRICT"))
    # Empty for the seed's held-out rows and for external data.
    round_id: Mapped[int | None] = mapped_column(ForeignKey("round.id", ondelete="RESTRICT"), default=None)
    dataset: Mapped[str] = mapped_column(LimitedText(200))
    dataset_sha256: Mapped[str]
    row_count: Mapped[int]
    metric: Mapped[str] = mapped_column(LimitedText(40))
    performance: Mapped[float]
    rows_per_second: Mapped[float | None] = mapped_column(default=None)
    memory_bytes: Mapped[int | None] = mapped_column(default=None)
    fairness: Mapped[float | None] = mapped_column(default=None)
    robustness: Mapped[float | None] = mapped_column(default=None)
    details: Mapped[dict[str, Any]]
    code_version: Mapped[str] = mapped_column(LimitedText(80))
    measured_at: Mapped[datetime]


class TrainingState(enum.StrEnum):
    """The state of a training; all but the first are final."""

    RUNNING = "running"
    ROTATED = "rotated"  # the new version is served
    REFUSED = "refused"  # the guard kept it out
    CANCELLED = "cancelled"  # cancelled by a user
    STOPPED = "stopped"  # its process was asked to stop
    FAILED = "failed"


class TrainingJob(table.Numbered):
    """One training on all rounds up to `round_id`, by one process."""

    __tablename__ = "training_job"
    __table_args__ = (
        table.references(round_id="round.id", task_id="round.task_id"),
        table.references(model_version_id="model_version.id", task_id="model_version.task_id"),
        table.index("uq_training_job_running", "task_id", unique=True, where="state = 'running'"),
        table.index("ix_training_job_task", "task_id", "id"),
        table.one_of("state", TrainingState),
        *table.filled("mode", "started_by", "host"),
        *table.at_least(0, "pid", "steps", "total"),
        table.together("finished", "state <> 'running'", "finished_at"),
        table.together("ended", "state <> 'running'", "reason"),
        *table.filled("reason"),
        table.together("cancelled", "cancel_at IS NOT NULL", "cancel_by"),
        table.check("candidate", "state NOT IN ('rotated', 'refused') OR model_version_id IS NOT NULL"),
        table.truth("retry"),
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
