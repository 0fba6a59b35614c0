"""Trained models and their evaluations."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.checks import at_least, check, filled, sha256, share
from round_manager.models.table import Numbered, Table, index


class ModelVersion(Numbered, Table):
    """An immutable trained model; the same files for one task are the same version."""

    __tablename__ = "model_version"
    __table_args__ = (
        ForeignKeyConstraint(
            ["parent_id", "task_id"], ["model_version.id", "model_version.task_id"], ondelete="RESTRICT"
        ),
        UniqueConstraint("name"),
        UniqueConstraint("task_id", "sha256"),
        UniqueConstraint("id", "task_id"),
        *filled("name", "uri"),
        *sha256("sha256", "data_sha256"),
        check("parent", "parent_id <> id"),
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


class Evaluation(Numbered, Table):
    """One model version measured on one frozen data set, on five axes."""

    __tablename__ = "evaluation"
    __table_args__ = (
        UniqueConstraint("model_version_id", "dataset_sha256", "metric"),
        index("ix_evaluation_round", "round_id"),
        *filled("dataset", "metric"),
        *sha256("dataset_sha256"),
        *at_least(1, "row_count"),
        *at_least(0, "rows_per_second", "memory_bytes"),
        share("performance"),
        share("fairness"),
        share("robustness"),
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
