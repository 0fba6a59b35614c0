"""Tasks, rounds and contexts, and the terms that tasks and rounds store."""

import copy
import enum
import uuid
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ForeignKey, ForeignKeyConstraint, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from common.errors import Hint
from round_manager.database.columns import Cents, LimitedText
from round_manager.errors import StoredSpecInvalid
from round_manager.models import table
from templates import TaskSpec

WITHIN_BUDGET = (
    "reserved_cents >= 0 AND owed_cents >= 0 AND sent_cents >= 0"
    " AND reserved_cents + owed_cents + sent_cents <= budget_cents"
)


class RoundStatus(enum.StrEnum):
    """The state of a round; it only moves forward."""

    DRAFT = "draft"
    OPEN = "open"
    VALIDATING = "validating"
    CLOSED = "closed"


class Task(table.Numbered):
    """A task pack made live."""

    __tablename__ = "task"
    __table_args__ = (
        UniqueConstraint("name"),
        table.check("name", f"length(name) BETWEEN 1 AND 40 AND trim(name, '{table.WORD}') = ''"),
        *table.sha256("spec_sha256"),
        table.check("worker_salt", "length(worker_salt) >= 32"),
        *table.whole_cents("budget_cents"),
        table.check("within_budget", WITHIN_BUDGET),
    )

    name: Mapped[str] = mapped_column(LimitedText(40))
    folder: Mapped[str]
    spec: Mapped[dict[str, Any]]
    spec_sha256: Mapped[str]
    # The salt of worker pseudonyms, the same for authors and validators.
    worker_salt: Mapped[str]
    budget_cents: Mapped[int] = mapped_column(Cents)
    # Maintained by the ledger's triggers; never set them.
    reserved_cents: Mapped[int] = mapped_column(Cents, default=0)
    owed_cents: Mapped[int] = mapped_column(Cents, default=0)
    sent_cents: Mapped[int] = mapped_column(Cents, default=0)
    created_at: Mapped[datetime]
    archived_at: Mapped[datetime | None] = mapped_column(default=None)
    # Since when its frozen rounds are public.
    published_at: Mapped[datetime | None] = mapped_column(default=None)


class Round(table.Numbered):
    """A numbered campaign of one task against its pinned model versions."""

    __tablename__ = "round"
    __table_args__ = (
        UniqueConstraint("task_id", "number"),
        UniqueConstraint("id", "task_id"),
        table.index("uq_round_live", "task_id", unique=True, where="status IN ('open', 'validating')"),
        table.one_of("status", RoundStatus),
        *table.at_least(1, "number", "target_fooling"),
        *table.sha256("spec_sha256", "archive_sha256"),
        *table.whole_cents("budget_cents"),
        table.check("within_budget", WITHIN_BUDGET),
        table.together("opened", "status <> 'draft'", "opened_at"),
        table.together("validating", "status IN ('validating', 'closed')", "validating_at"),
        table.together("closed", "status = 'closed'", "closed_at"),
        table.check("in_order", "opened_at <= validating_at AND validating_at <= closed_at"),
        table.truth("in_house"),
        table.check("paused", "paused_at IS NULL OR status IN ('open', 'validating')"),
        table.check("frozen", "frozen_at IS NULL OR status = 'closed'"),
        table.together("archived", "frozen_at IS NOT NULL", "archive_sha256"),
        table.together("archive_place", "frozen_at IS NOT NULL", "archive_uri"),
        table.check("texts_known", "(imported IS NOT NULL) = (texts_known IS NOT NULL) AND texts_known >= 0"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    number: Mapped[int]
    status: Mapped[RoundStatus] = mapped_column(default=RoundStatus.DRAFT)
    # The task's spec when the round opened: rules do not change during a round.
    spec: Mapped[dict[str, Any]]
    spec_sha256: Mapped[str]
    target_fooling: Mapped[int]
    budget_cents: Mapped[int] = mapped_column(Cents)
    # Maintained by the ledger's triggers; never set them.
    reserved_cents: Mapped[int] = mapped_column(Cents, default=0)
    owed_cents: Mapped[int] = mapped_column(Cents, default=0)
    sent_cents: Mapped[int] = mapped_column(Cents, default=0)
    created_at: Mapped[datetime]
    closes_at: Mapped[datetime | None] = mapped_column(default=None)
    opened_at: Mapped[datetime | None] = mapped_column(default=None)
    validating_at: Mapped[datetime | None] = mapped_column(default=None)
    closed_at: Mapped[datetime | None] = mapped_column(default=None)
    paused_at: Mapped[datetime | None] = mapped_column(default=None)
    frozen_at: Mapped[datetime | None] = mapped_column(default=None)
    archive_uri: Mapped[str | None] = mapped_column(default=None)
    archive_sha256: Mapped[str | None] = mapped_column(default=None)
    # Only people in Label Studio work on it: nothing of it is posted on a crowd.
    in_house: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Where an imported round comes from, and its figures (see `archive.imported_rounds`). Its archive has its rows.
    imported: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    # How many rows of its archive are in the index of known texts.
    texts_known: Mapped[int | None] = mapped_column(default=None)

    @property
    def is_imported(self) -> bool:
        """Whether it was published elsewhere, and not collected here."""
        return self.imported is not None


class Suite(table.Numbered):
    """A frozen test suite of a task that belongs to no round; its rows are in its archive only."""

    __tablename__ = "suite"
    __table_args__ = (
        UniqueConstraint("task_id", "name"),
        table.check("name", f"length(name) BETWEEN 1 AND 40 AND trim(name, '{table.WORD}-') = ''"),
        *table.sha256("archive_sha256"),
        *table.at_least(1, "examples"),
        table.truth("hidden"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    name: Mapped[str] = mapped_column(LimitedText(40))
    # Models are scored on a hidden suite, and it cannot be downloaded.
    hidden: Mapped[bool]
    origin: Mapped[dict[str, Any]]
    examples: Mapped[int]
    archive_uri: Mapped[str]
    archive_sha256: Mapped[str]
    imported_at: Mapped[datetime]


class RoundModel(table.Table):
    """A model version that a round pins; examples refer to the one with rank 0."""

    __tablename__ = "round_model"
    __table_args__ = (
        ForeignKeyConstraint(["round_id", "task_id"], ["round.id", "round.task_id"], ondelete="CASCADE"),
        table.references(model_version_id="model_version.id", task_id="model_version.task_id"),
        UniqueConstraint("round_id", "rank"),
        *table.at_least(0, "rank"),
    )

    round_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    model_version_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    task_id: Mapped[int]
    rank: Mapped[int]


class Context(table.Numbered):
    """What a worker starts from: a premise, a passage, a prompt."""

    __tablename__ = "context"
    __table_args__ = (
        UniqueConstraint("public_id"),
        UniqueConstraint("task_id", "key"),
        UniqueConstraint("task_id", "position"),
        UniqueConstraint("id", "task_id"),
        # Covers the columns that handing out reads, so that long texts are not read.
        table.index("ix_context_live", "task_id", "position", "id", where="retired_at IS NULL"),
        *table.filled("key"),
        *table.at_least(0, "position"),
    )

    public_id: Mapped[uuid.UUID]
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # Its id in the owner's file, which identifies it in a repeated upload.
    key: Mapped[str] = mapped_column(LimitedText(200))
    # The owner's order.
    position: Mapped[int]
    fields: Mapped[dict[str, Any]]
    extra: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    retired_at: Mapped[datetime | None] = mapped_column(default=None)


# Each request reads the terms of its round, and most rounds have the same ones.
MOST_PARSED = 100
_parsed: dict[str, tuple[dict[str, Any], TaskSpec]] = {}


def spec_of(record: Task | Round) -> TaskSpec:
    """Return the current spec of a task, or the spec that a round was opened with."""
    known = _parsed.get(record.spec_sha256)
    if known is not None and known[0] == record.spec:
        return known[1]
    try:
        parsed = TaskSpec.model_validate(record.spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        hint = Hint("create_task", pack=record.name) if isinstance(record, Task) else None
        raise StoredSpecInvalid(
            f"the stored spec of {record!r} is invalid at {where}: {first['msg']}", hint=hint
        ) from error
    if len(_parsed) >= MOST_PARSED:
        _parsed.clear()
    # A copy: the record's own dictionary can be changed.
    _parsed[record.spec_sha256] = (copy.deepcopy(record.spec), parsed)
    return parsed
