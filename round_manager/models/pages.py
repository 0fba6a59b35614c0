"""The contents of worker pages: items, gold items and quiz results."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.table import Numbered, at_least, check, exactly_one, filled, index, together, truth


class WorkItem(Numbered):
    """One item of a work session: a context to write for, or an example or gold item to judge.

    A judgement becomes a vote only when the marketplace confirms the worker.
    """

    __tablename__ = "work_item"
    __table_args__ = (
        ForeignKeyConstraint(
            ["session_id", "worker_id"], ["work_session.id", "work_session.worker_id"], ondelete="RESTRICT"
        ),
        # The author is copied from the example so that the database can compare.
        ForeignKeyConstraint(["example_id", "author_id"], ["example.id", "example.author_id"], ondelete="RESTRICT"),
        UniqueConstraint("session_id", "item"),
        index("ix_work_item_example", "worker_id", "example_id", where="example_id IS NOT NULL"),
        index("ix_work_item_gold", "worker_id", "gold_id", where="gold_id IS NOT NULL"),
        *at_least(0, "item", "active_ms"),
        exactly_one("subject", "context_id", "example_id", "gold_id"),
        together("author", "example_id IS NOT NULL", "author_id"),
        check("not_the_author", "worker_id <> author_id"),
        check("expected", "expected_label IS NULL OR expected_answer IS NULL"),
        check("known", "gold_id IS NULL OR expected_label IS NOT NULL OR expected_answer IS NOT NULL"),
        together("judged", "judgement IS NOT NULL", "judged_at"),
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


class GoldItem(Numbered):
    """An item with a known answer."""

    __tablename__ = "gold_item"
    __table_args__ = (
        UniqueConstraint("task_id", "key"),
        *filled("key"),
        exactly_one("target", "label", "answer"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # Its id in the owner's file and a fingerprint of the rest, so that a row that was changed is another one.
    key: Mapped[str] = mapped_column(LimitedText(200))
    fields: Mapped[dict[str, Any]]
    label: Mapped[str | None] = mapped_column(LimitedText(40), default=None)
    answer: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    created_at: Mapped[datetime]
    retired_at: Mapped[datetime | None] = mapped_column(default=None)


class QuizResult(Numbered):
    """One scored attempt at a task's quiz; it counts when its session is confirmed."""

    __tablename__ = "quiz_result"
    __table_args__ = (
        ForeignKeyConstraint(
            ["session_id", "worker_id"], ["work_session.id", "work_session.worker_id"], ondelete="RESTRICT"
        ),
        UniqueConstraint("session_id", "number"),
        index("ix_quiz_result_worker", "worker_id", "task_id"),
        *at_least(1, "number", "questions"),
        check("right_answers", "right_answers >= 0 AND right_answers <= questions"),
        truth("passed"),
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
