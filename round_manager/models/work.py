"""Work on examples: the items of worker pages, leases, votes, gold items and quiz results."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models import table
from round_manager.models.collection import Source


class LeaseEnd(enum.StrEnum):
    """How a lease ended."""

    USED = "used"
    SKIPPED = "skipped"
    RETURNED = "returned"
    EXPIRED = "expired"


class Vote(table.Numbered):
    """One validator's judgement of one example: never the author's, never twice, never changed."""

    __tablename__ = "vote"
    __table_args__ = (
        # The author is copied from the example so that the database can compare.
        table.references(example_id="example.id", author_id="example.author_id"),
        table.references(session_id="work_session.id", worker_id="work_session.worker_id"),
        UniqueConstraint("example_id", "worker_id"),
        table.index("uq_vote_session", "session_id", "item", unique=True, where="session_id IS NOT NULL"),
        table.index("ix_vote_worker", "worker_id", "id"),
        table.one_of("source", Source),
        table.check("not_the_author", "worker_id <> author_id"),
        table.exactly_one("judgement", "label", "answer", "flag"),
        table.truth("established"),
        *table.filled("label", "flag"),
        *table.at_least(0, "item", "active_ms"),
    )

    example_id: Mapped[int]
    author_id: Mapped[int]
    worker_id: Mapped[int] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"))
    source: Mapped[Source]
    session_id: Mapped[int | None] = mapped_column(default=None)
    item: Mapped[int] = mapped_column(default=0)
    label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    answer: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    # Why the example should not be used.
    flag: Mapped[str | None] = mapped_column(default=None)
    comment: Mapped[str | None] = mapped_column(default=None)
    voted_at: Mapped[datetime]
    active_ms: Mapped[int | None] = mapped_column(default=None)
    # Whether the validator was established when they voted; null if the task does not ask for it.
    established: Mapped[bool | None] = mapped_column(default=None)


class UncountedVote(table.Table):
    """A vote that no decision has considered yet: a trigger adds it, and deciding the example removes it.

    It lets the decision step find changed examples without reading all pending ones.
    """

    __tablename__ = "uncounted_vote"
    __table_args__ = (table.index("ix_uncounted_vote_round", "round_id", "vote_id"),)

    vote_id: Mapped[int] = mapped_column(
        ForeignKey("vote.id", ondelete="RESTRICT"), primary_key=True, autoincrement=False
    )
    round_id: Mapped[int]
    example_id: Mapped[int]


class Lease(table.Numbered):
    """A context or example that is reserved until a time.

    A lease is active while `ended_at` is empty and `expires_at` is in the future.
    """

    __tablename__ = "lease"
    __table_args__ = (
        table.references(example_id="example.id", author_id="example.author_id"),
        table.references(session_id="work_session.id", worker_id="work_session.worker_id"),
        table.index(
            "uq_lease_context", "context_id", "worker_id", unique=True,
            where="context_id IS NOT NULL AND ended_at IS NULL",
        ),
        table.index(
            "uq_lease_example", "example_id", "worker_id", unique=True,
            where="example_id IS NOT NULL AND ended_at IS NULL",
        ),
        table.index("ix_lease_live", "expires_at", where="ended_at IS NULL"),
        table.index("ix_lease_seen", "worker_id", "context_id"),
        table.index("ix_lease_session", "session_id", where="session_id IS NOT NULL"),
        table.index("ix_lease_hit", "hit_id", where="hit_id IS NOT NULL"),
        table.one_of("outcome", LeaseEnd),
        table.exactly_one("subject", "context_id", "example_id"),
        table.together("author", "example_id IS NOT NULL", "author_id"),
        table.check("not_the_author", "worker_id <> author_id"),
        table.check("holder", "worker_id IS NOT NULL OR hit_id IS NOT NULL"),
        table.together("ended", "ended_at IS NOT NULL", "outcome"),
        table.check("in_order", "leased_at < expires_at"),
    )  # fmt: skip

    context_id: Mapped[int | None] = mapped_column(ForeignKey("context.id", ondelete="RESTRICT"), default=None)
    example_id: Mapped[int | None] = mapped_column(default=None)
    author_id: Mapped[int | None] = mapped_column(default=None)
    # A HIT can hold a lease before a worker accepts it.
    hit_id: Mapped[int | None] = mapped_column(ForeignKey("hit.id", ondelete="RESTRICT"), default=None)
    worker_id: Mapped[int | None] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"), default=None)
    session_id: Mapped[int | None] = mapped_column(default=None)
    leased_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None] = mapped_column(default=None)
    outcome: Mapped[LeaseEnd | None] = mapped_column(default=None)


class WorkItem(table.Numbered):
    """One item of a work session: a context to write for, or an example or gold item to judge.

    A judgement becomes a vote only when the marketplace confirms the worker.
    """

    __tablename__ = "work_item"
    __table_args__ = (
        table.references(session_id="work_session.id", worker_id="work_session.worker_id"),
        # The author is copied from the example so that the database can compare.
        table.references(example_id="example.id", author_id="example.author_id"),
        UniqueConstraint("session_id", "item"),
        table.index("ix_work_item_example", "worker_id", "example_id", where="example_id IS NOT NULL"),
        table.index("ix_work_item_gold", "worker_id", "gold_id", where="gold_id IS NOT NULL"),
        table.index("ix_work_item_author", "worker_id", "author_id", where="author_id IS NOT NULL"),
        *table.at_least(0, "item", "active_ms"),
        table.exactly_one("subject", "context_id", "example_id", "gold_id"),
        table.together("author", "example_id IS NOT NULL", "author_id"),
        table.check("not_the_author", "worker_id <> author_id"),
        table.check("expected", "expected_label IS NULL OR expected_answer IS NULL"),
        table.check("known", "gold_id IS NULL OR expected_label IS NOT NULL OR expected_answer IS NOT NULL"),
        table.together("judged", "judgement IS NOT NULL", "judged_at"),
    )

    session_id: Mapped[int]
    worker_id: Mapped[int]
    item: Mapped[int]
    context_id: Mapped[int | None] = mapped_column(ForeignKey("context.id", ondelete="RESTRICT"), default=None)
    # The label to write for, where the task sets it.
    label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    example_id: Mapped[int | None] = mapped_column(default=None)
    author_id: Mapped[int | None] = mapped_column(default=None)
    gold_id: Mapped[int | None] = mapped_column(ForeignKey("gold_item.id", ondelete="RESTRICT"), default=None)
    # Set for a gold item: the judgement is scored and does not become a vote.
    expected_label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    expected_answer: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    # What the worker has on the page, so that a reload loses nothing.
    draft: Mapped[dict[str, Any]] = mapped_column(default_factory=dict)
    judgement: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    judged_at: Mapped[datetime | None] = mapped_column(default=None)
    # Of the session's active time, what went into this one, texts that were skipped included.
    active_ms: Mapped[int | None] = mapped_column(default=None)


class GoldItem(table.Numbered):
    """An item with a known answer, from a private file of the owner."""

    __tablename__ = "gold_item"
    __table_args__ = (
        UniqueConstraint("task_id", "key"),
        *table.filled("key"),
        table.exactly_one("target", "label", "answer"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # Its id in the owner's file and a fingerprint of the rest, so that a row that was changed is another one.
    key: Mapped[str] = mapped_column(LimitedText(200))
    fields: Mapped[dict[str, Any]]
    label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    answer: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    created_at: Mapped[datetime]
    retired_at: Mapped[datetime | None] = mapped_column(default=None)


class GoldExample(table.Table):
    """A verified example that serves as gold. It is not published before it is retired."""

    __tablename__ = "gold_example"
    __table_args__ = (
        table.references(example_id="example.id"),
        table.references(round_id="round.id", task_id="round.task_id"),
        table.index("ix_gold_example_live", "task_id", "round_id", where="retired_at IS NULL"),
        table.index("ix_gold_example_round", "round_id"),
    )

    example_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    task_id: Mapped[int]
    round_id: Mapped[int]
    created_at: Mapped[datetime]
    retired_at: Mapped[datetime | None] = mapped_column(default=None)
    # Set if the archive of its round does not have it.
    withheld_at: Mapped[datetime | None] = mapped_column(default=None)


class GoldShowing(table.Numbered):
    """Gold on a worker's page; no worker gets the same item on another page."""

    __tablename__ = "gold_showing"
    __table_args__ = (
        table.references(session_id="work_session.id", worker_id="work_session.worker_id"),
        table.index("uq_gold_showing_gold", "gold_id", "worker_id", unique=True, where="gold_id IS NOT NULL"),
        table.index("uq_gold_showing_example", "example_id", "worker_id", unique=True, where="example_id IS NOT NULL"),
        table.index("ix_gold_showing_worker", "worker_id"),
        table.exactly_one("subject", "gold_id", "example_id"),
    )

    worker_id: Mapped[int]
    session_id: Mapped[int]
    shown_at: Mapped[datetime]
    gold_id: Mapped[int | None] = mapped_column(ForeignKey("gold_item.id", ondelete="RESTRICT"), default=None)
    example_id: Mapped[int | None] = mapped_column(
        ForeignKey("gold_example.example_id", ondelete="RESTRICT"), default=None
    )


class PageAddress(table.Table):
    """An address that a page was used from, as a keyed hash; it is deleted after 30 days."""

    __tablename__ = "page_address"
    __table_args__ = (
        table.references(session_id="work_session.id"),
        table.index("ix_page_address_stored", "stored_at"),
        *table.sha256("address"),
    )

    session_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    address: Mapped[str] = mapped_column(LimitedText(64), primary_key=True, repr=False)
    stored_at: Mapped[datetime]


class InstructionsRead(table.Table):
    """Which instructions of a task a worker has read; those that changed since are shown again."""

    __tablename__ = "instructions_read"
    __table_args__ = (
        table.references(worker_id="worker.id"),
        table.references(task_id="task.id"),
        table.truth("for_validators"),
        *table.sha256("version"),
    )

    worker_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    task_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    for_validators: Mapped[bool] = mapped_column(primary_key=True)
    # A hash of what the page showed.
    version: Mapped[str] = mapped_column(LimitedText(64))
    read_at: Mapped[datetime]


class QuizResult(table.Numbered):
    """One scored attempt at a task's quiz; it counts when its session is confirmed."""

    __tablename__ = "quiz_result"
    __table_args__ = (
        table.references(session_id="work_session.id", worker_id="work_session.worker_id"),
        UniqueConstraint("session_id", "number"),
        table.index("ix_quiz_result_worker", "worker_id", "task_id"),
        *table.at_least(1, "number", "questions"),
        table.check("right_answers", "right_answers >= 0 AND right_answers <= questions"),
        table.truth("passed"),
    )

    session_id: Mapped[int]
    worker_id: Mapped[int]
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    number: Mapped[int]
    # `given`: the place of the chosen answer for each question.
    answers: Mapped[dict[str, Any]]
    right_answers: Mapped[int]
    questions: Mapped[int]
    passed: Mapped[bool]
    taken_at: Mapped[datetime]
