"""Votes, and leases of contexts and examples."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.models.collection import Source
from round_manager.models.table import Numbered, Table, at_least, check, exactly_one, filled, index, one_of, together


class LeaseEnd(enum.StrEnum):
    """How a lease ended."""

    USED = "used"
    SKIPPED = "skipped"
    RETURNED = "returned"
    EXPIRED = "expired"


class Vote(Numbered):
    """One validator's judgement of one example: never the author's, never twice, never changed."""

    __tablename__ = "vote"
    __table_args__ = (
        # The author is copied from the example so that the database can compare.
        ForeignKeyConstraint(["example_id", "author_id"], ["example.id", "example.author_id"], ondelete="RESTRICT"),
        ForeignKeyConstraint(
            ["session_id", "worker_id"], ["work_session.id", "work_session.worker_id"], ondelete="RESTRICT"
        ),
        UniqueConstraint("example_id", "worker_id"),
        index("uq_vote_session", "session_id", "item", unique=True, where="session_id IS NOT NULL"),
        index("ix_vote_worker", "worker_id", "id"),
        one_of("source", Source),
        check("not_the_author", "worker_id <> author_id"),
        exactly_one("judgement", "label", "answer", "flag"),
        *filled("label", "flag"),
        *at_least(0, "item", "active_ms"),
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


class UncountedVote(Table):
    """A vote that no decision has considered yet: a trigger adds it, and deciding the example removes it.

    It lets the decision step find changed examples without reading all pending ones.
    """

    __tablename__ = "uncounted_vote"
    __table_args__ = (index("ix_uncounted_vote_round", "round_id", "vote_id"),)

    vote_id: Mapped[int] = mapped_column(
        ForeignKey("vote.id", ondelete="RESTRICT"), primary_key=True, autoincrement=False
    )
    round_id: Mapped[int]
    example_id: Mapped[int]


class Lease(Numbered):
    """A context or example that is reserved until a time.

    A lease is active while `ended_at` is empty and `expires_at` is in the future.
    """

    __tablename__ = "lease"
    __table_args__ = (
        ForeignKeyConstraint(["example_id", "author_id"], ["example.id", "example.author_id"], ondelete="RESTRICT"),
        ForeignKeyConstraint(
            ["session_id", "worker_id"], ["work_session.id", "work_session.worker_id"], ondelete="RESTRICT"
        ),
        index(
            "uq_lease_context", "context_id", "worker_id", unique=True,
            where="context_id IS NOT NULL AND ended_at IS NULL",
        ),
        index(
            "uq_lease_example", "example_id", "worker_id", unique=True,
            where="example_id IS NOT NULL AND ended_at IS NULL",
        ),
        index("ix_lease_live", "expires_at", where="ended_at IS NULL"),
        index("ix_lease_seen", "worker_id", "context_id"),
        index("ix_lease_session", "session_id", where="session_id IS NOT NULL"),
        index("ix_lease_hit", "hit_id", where="hit_id IS NOT NULL"),
        one_of("outcome", LeaseEnd),
        exactly_one("subject", "context_id", "example_id"),
        together("author", "example_id IS NOT NULL", "author_id"),
        check("not_the_author", "worker_id <> author_id"),
        check("holder", "worker_id IS NOT NULL OR hit_id IS NOT NULL"),
        together("ended", "ended_at IS NOT NULL", "outcome"),
        check("in_order", "leased_at < expires_at"),
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
