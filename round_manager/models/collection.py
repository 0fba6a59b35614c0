"""What people wrote: attempts, examples, and counters of examples."""

import enum
import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models import table


class Source(enum.StrEnum):
    """Where work was done."""

    PAGES = "pages"
    LABEL_STUDIO = "label_studio"
    IMPORT = "import"


class ExampleStatus(enum.StrEnum):
    """The state of an example."""

    UNCONFIRMED = "unconfirmed"  # the author is not confirmed by the marketplace
    UNCHECKED = "unchecked"  # did not fool the model and was not sampled for validation
    PENDING = "pending"  # waits for votes
    FLAGGED = "flagged"  # waits for the owner
    VERIFIED = "verified"  # people agree with the author
    DISPUTED = "disputed"  # people disagree with the author
    WITHDRAWN = "withdrawn"  # not to be used


class Split(enum.StrEnum):
    """What an example may be used for."""

    TRAIN = "train"
    HELD_OUT = "held_out"


class Duplicate(enum.StrEnum):
    """How an example repeats a known text."""

    EXACT = "exact"  # the same apart from case, punctuation and spacing
    NEAR = "near"  # at least as similar as the task's threshold


class Example(table.Numbered):
    """What a worker submitted, with its verdict."""

    __tablename__ = "example"
    __table_args__ = (
        table.references(round_id="round.id", task_id="round.task_id"),
        table.references(context_id="context.id", task_id="context.task_id"),
        # The verdict must come from a model that the round pins.
        table.references(round_id="round_model.round_id", model_version_id="round_model.model_version_id"),
        table.references(session_id="work_session.id", author_id="work_session.worker_id"),
        UniqueConstraint("public_id"),
        UniqueConstraint("verdict_id"),
        UniqueConstraint("id", "author_id"),
        table.index("uq_example_session", "session_id", "item", unique=True, where="session_id IS NOT NULL"),
        table.index("ix_example_round", "round_id", "id"),
        table.index("ix_example_counts", "round_id", "status", "fooled"),
        table.index("ix_example_pending", "round_id", "id", where="status = 'pending'"),
        table.index("ix_example_flagged", "round_id", "id", where="status = 'flagged'"),
        table.index("ix_example_verified", "task_id", "id", where="status = 'verified'"),
        table.index("ix_example_author", "author_id", "context_id"),
        table.index("ix_example_context", "context_id", "fooled"),
        table.index("ix_example_content", "task_id", "content_sha256"),
        table.index("ix_example_unconfirmed", "author_id", "round_id", where="status = 'unconfirmed'"),
        table.index("ix_example_duplicate", "duplicate_of", where="duplicate_of IS NOT NULL"),
        table.index("ix_example_repeated", "round_id", "fooled", "status", where="duplicate IS NOT NULL"),
        table.one_of("source", Source),
        table.one_of("status", ExampleStatus),
        table.one_of("split", Split),
        table.one_of("duplicate", Duplicate),
        table.together("duplicate_of", "duplicate IS NOT NULL", "duplicate_of"),
        *table.sha256("content_sha256"),
        *table.at_least(0, "item", "active_ms", "votes_wanted"),
        *table.at_least(1, "tries"),
        table.share("confidence"),
        table.truth("fooled"),
        table.exactly_one("target", "label", "answer"),
        table.check("gold", "gold_label IS NULL OR gold_answer IS NULL"),
        table.check("verified", "status <> 'verified' OR gold_label IS NOT NULL OR gold_answer IS NOT NULL"),
        table.together("decided", "status IN ('verified', 'disputed', 'withdrawn')", "decided_at"),
        table.check("split_use", "split IS NULL OR status NOT IN ('unconfirmed', 'withdrawn')"),
    )

    public_id: Mapped[uuid.UUID]
    task_id: Mapped[int]
    round_id: Mapped[int]
    context_id: Mapped[int | None] = mapped_column(default=None)
    author_id: Mapped[int] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"))
    source: Mapped[Source]
    session_id: Mapped[int | None] = mapped_column(default=None)
    # Its position among the examples of a HIT.
    item: Mapped[int] = mapped_column(default=0)

    fields: Mapped[dict[str, Any]]
    content_sha256: Mapped[str]
    label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    answer: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    explanation: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    submitted_at: Mapped[datetime]
    active_ms: Mapped[int | None] = mapped_column(default=None)
    tries: Mapped[int] = mapped_column(default=1)

    # The id of the signed verdict: a verdict serves one example only. No foreign key: the attempt with the same id may
    # still be in the ML backend's outbox when the example arrives.
    verdict_id: Mapped[uuid.UUID | None] = mapped_column(default=None)
    verdict: Mapped[dict[str, Any]]
    model_version_id: Mapped[int]
    confidence: Mapped[float]
    fooled: Mapped[bool]

    status: Mapped[ExampleStatus]
    votes_wanted: Mapped[int] = mapped_column(default=0)
    gold_label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    gold_answer: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    decided_at: Mapped[datetime | None] = mapped_column(default=None)
    split: Mapped[Split | None] = mapped_column(default=None)
    # Empty if the text is new. A duplicate names the known text that it repeats, as KnownText does.
    duplicate: Mapped[Duplicate | None] = mapped_column(default=None)
    duplicate_of: Mapped[str | None] = mapped_column(default=None)


class KnownText(table.Numbered):
    """A text that later examples are compared with: of an example, a row of the seed, or a field of a context.

    `name` is the example's public id, `seed:` and the row's id, `context:` and its key, or `imported:` with the number
    of an imported round and the id in its archive.
    """

    __tablename__ = "known_text"
    __table_args__ = (
        table.index("ix_known_text_name", "task_id", "name", where="example_id IS NULL"),
        table.index("uq_known_text_example", "example_id", unique=True, where="example_id IS NOT NULL"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    name: Mapped[str]
    example_id: Mapped[int | None] = mapped_column(ForeignKey("example.id", ondelete="RESTRICT"), default=None)
    # The number of the context that the model reads with it, and the text without case, punctuation and spacing.
    context: Mapped[int]
    text: Mapped[str]


class TextKey(table.Table):
    """A MinHash key of a known text: texts that share a key may be similar.

    Without foreign keys, whose checks would cost more than the rows: only `novelty.known_texts` writes it.
    """

    __tablename__ = "text_key"
    __table_args__ = ({"sqlite_with_rowid": False},)

    task_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    key: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    text_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class RoundTally(table.Table):
    """The number of a round's examples by status, maintained by triggers; only an import writes to it.

    Pages and `outfox status` read it, because counting a million rows is slow. Metrics are computed from votes.
    """

    __tablename__ = "round_tally"
    __table_args__ = (table.references(round_id="round.id"),)

    round_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    status: Mapped[ExampleStatus] = mapped_column(primary_key=True)
    fooled: Mapped[bool] = mapped_column(primary_key=True)
    examples: Mapped[int]


class ContextTally(table.Table):
    """The number of examples on a context in a round, without withdrawn ones; maintained by triggers.

    In an open or validating round, every active context has a row with its position, so that the next context is found
    by an index, however many there are.
    """

    __tablename__ = "context_tally"
    __table_args__ = (
        table.references(round_id="round.id"),
        table.references(context_id="context.id"),
        *(
            table.index(f"ix_context_tally_{strategy}", "round_id", *columns, where="lot IS NOT NULL")
            for strategy, columns in (
                ("uniform", ("lot", "context_id")),
                ("least_used", ("used", "lot", "context_id")),
                ("least_fooled", ("fooled", "used", "lot", "context_id")),
                ("in_order", ("used", "position", "context_id")),
            )
        ),
    )

    round_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    context_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    used: Mapped[int]
    fooled: Mapped[int]
    # Its position in a random order without ties, and in the owner's order. Empty if the context is not handed out, and
    # in rounds that ended before these columns existed.
    lot: Mapped[int | None] = mapped_column(default=None)
    position: Mapped[int | None] = mapped_column(default=None)


class LabelTally(table.Table):
    """The number of a round's examples by label, without withdrawn ones; maintained by triggers."""

    __tablename__ = "label_tally"
    __table_args__ = (table.references(round_id="round.id"),)

    round_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    label: Mapped[str] = mapped_column(LimitedText(40), primary_key=True)
    examples: Mapped[int]


class Attempt(table.Numbered):
    """One question put to the model and what it said."""

    __tablename__ = "attempt"
    __table_args__ = (
        table.references(round_id="round.id", task_id="round.task_id"),
        table.references(context_id="context.id", task_id="context.task_id"),
        table.references(model_version_id="model_version.id", task_id="model_version.task_id"),
        table.references(session_id="work_session.id", worker_id="work_session.worker_id"),
        # The id in the signed verdict: a verdict that a sink sends twice is stored once.
        UniqueConstraint("public_id"),
        table.index("uq_attempt_session", "session_id", "item", "number", unique=True, where="session_id IS NOT NULL"),
        table.index("ix_attempt_round", "round_id", "id"),
        table.index("ix_attempt_example", "example_id", "id", where="example_id IS NOT NULL"),
        table.index("ix_attempt_worker", "worker_id", "asked_at", where="worker_id IS NOT NULL"),
        table.index(
            "ix_attempt_label_studio_task", "label_studio_task_id", "id", where="label_studio_task_id IS NOT NULL"
        ),
        table.index("ix_attempt_time", "task_id", "asked_at"),
        table.one_of("source", Source),
        *table.at_least(0, "item", "latency_us"),
        *table.at_least(1, "number"),
        table.share("confidence"),
        table.truth("fooled"),
        table.check("target", "label IS NULL OR answer IS NULL"),
        # Empty for an attempt without a target: a QA question comes before its answer.
        table.check("judged", "fooled IS NULL OR label IS NOT NULL OR answer IS NOT NULL"),
    )

    public_id: Mapped[uuid.UUID]
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # Empty for an attempt outside a round.
    round_id: Mapped[int | None] = mapped_column(default=None)
    context_id: Mapped[int | None] = mapped_column(default=None)
    source: Mapped[Source]
    session_id: Mapped[int | None] = mapped_column(default=None)
    item: Mapped[int] = mapped_column(default=0)
    number: Mapped[int] = mapped_column(default=1)
    label_studio_task_id: Mapped[int | None] = mapped_column(
        ForeignKey("label_studio_task.id", ondelete="RESTRICT"), default=None
    )
    # Label Studio names no annotator when it asks; both are filled in once, when the example arrives.
    worker_id: Mapped[int | None] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"), default=None)
    example_id: Mapped[int | None] = mapped_column(ForeignKey("example.id", ondelete="RESTRICT"), default=None)

    fields: Mapped[dict[str, Any]]
    label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    answer: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    verdict: Mapped[dict[str, Any]]
    model_version_id: Mapped[int]
    confidence: Mapped[float]
    fooled: Mapped[bool | None] = mapped_column(default=None)
    latency_us: Mapped[int]
    asked_at: Mapped[datetime]
