"""Projects, tasks and annotations in Label Studio, and how far they were read."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models import table


class ProjectKind(enum.StrEnum):
    """What a project is for."""

    CREATE = "create"
    VALIDATE = "validate"


class Origin(enum.StrEnum):
    """Who made an annotation."""

    THEIRS = "theirs"  # an annotator in Label Studio; read by sync
    OURS = "ours"  # crowd work that was pushed there


class LabelStudioLink(table.Numbered):
    """A task's project in Label Studio, with the cursor of the last sync."""

    __tablename__ = "label_studio_link"
    __table_args__ = (
        UniqueConstraint("task_id", "kind"),
        UniqueConstraint("url", "project"),
        table.one_of("kind", ProjectKind),
        *table.filled("url"),
        *table.sha256("settings_sha256"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    kind: Mapped[ProjectKind]
    url: Mapped[str] = mapped_column(LimitedText(500))
    project: Mapped[int]
    ml_backend: Mapped[int | None] = mapped_column(default=None)
    webhook: Mapped[int | None] = mapped_column(default=None)
    # The hash of the settings that were sent last.
    settings_sha256: Mapped[str | None] = mapped_column(default=None)
    # All changes before this time were read.
    seen_until: Mapped[datetime | None] = mapped_column(default=None)
    synced_at: Mapped[datetime | None] = mapped_column(default=None)
    last_error: Mapped[str | None] = mapped_column(default=None)


class LabelStudioTask(table.Numbered):
    """A task in a project: a context to write for, or an example to validate, one per validator."""

    __tablename__ = "label_studio_task"
    __table_args__ = (
        # One per (context, target) or (example, validator), however often tasks are pushed.
        UniqueConstraint("link_id", "key"),
        UniqueConstraint("link_id", "external_id"),
        UniqueConstraint("id", "link_id"),
        table.index("ix_label_studio_task_example", "example_id", where="example_id IS NOT NULL"),
        table.index("ix_label_studio_task_unsent", "link_id", "id", where="external_id IS NULL"),
        *table.filled("key"),
        table.check("subject", "context_id IS NULL OR example_id IS NULL"),
    )

    link_id: Mapped[int] = mapped_column(ForeignKey("label_studio_link.id", ondelete="RESTRICT"))
    key: Mapped[str] = mapped_column(LimitedText(120))
    context_id: Mapped[int | None] = mapped_column(ForeignKey("context.id", ondelete="RESTRICT"), default=None)
    example_id: Mapped[int | None] = mapped_column(ForeignKey("example.id", ondelete="RESTRICT"), default=None)
    label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    # Empty until Label Studio has created it.
    external_id: Mapped[int | None] = mapped_column(default=None)
    created_at: Mapped[datetime]
    # The outcome of its submission that was written to it last.
    outcome: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    # For a task that returns a refused submission: the texts by field, and the reason.
    returned: Mapped[dict[str, Any] | None] = mapped_column(default=None)


class LabelStudioAnnotation(table.Numbered):
    """An annotation that was read or pushed, and the example or vote it belongs to."""

    __tablename__ = "label_studio_annotation"
    __table_args__ = (
        ForeignKeyConstraint(
            ["label_studio_task_id", "link_id"],
            ["label_studio_task.id", "label_studio_task.link_id"],
            name="fk_label_studio_annotation_task",  # the conventional name is too long for PostgreSQL
            ondelete="RESTRICT",
        ),
        UniqueConstraint("link_id", "external_id"),
        UniqueConstraint("key"),
        table.index("ix_label_studio_annotation_task", "label_studio_task_id"),
        table.index("ix_label_studio_annotation_example", "example_id", where="example_id IS NOT NULL"),
        table.index("ix_label_studio_annotation_vote", "vote_id", where="vote_id IS NOT NULL"),
        table.index("ix_label_studio_annotation_unsent", "id", where="external_id IS NULL"),
        table.one_of("origin", Origin),
        *table.sha256("result_sha256"),
        *table.filled("key"),
        table.check("subject", "example_id IS NULL OR vote_id IS NULL"),
        table.check("read", "origin = 'ours' OR external_id IS NOT NULL"),
    )

    link_id: Mapped[int] = mapped_column(ForeignKey("label_studio_link.id", ondelete="RESTRICT"))
    label_studio_task_id: Mapped[int]
    origin: Mapped[Origin]
    # The key of a pushed annotation: a repeated push does not create a second one.
    key: Mapped[str | None] = mapped_column(LimitedText(120), default=None)
    external_id: Mapped[int | None] = mapped_column(default=None)
    # The hash of the last result, by which edits are noticed.
    result_sha256: Mapped[str]
    changed_at: Mapped[datetime]
    example_id: Mapped[int | None] = mapped_column(ForeignKey("example.id", ondelete="RESTRICT"), default=None)
    vote_id: Mapped[int | None] = mapped_column(ForeignKey("vote.id", ondelete="RESTRICT"), default=None)
    # Why it could not be used, for the owner.
    problem: Mapped[str | None] = mapped_column(default=None)
