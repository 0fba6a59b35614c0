"""HITs and assignments, mirrored from the marketplace, and the work sessions that belong to them."""

import enum
import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import Cents, LimitedText
from round_manager.models.table import Numbered, at_least, check, filled, index, one_of, together, whole_cents


class HitKind(enum.StrEnum):
    """What a HIT asks for."""

    CREATE = "create"
    VALIDATE = "validate"
    QUIZ = "quiz"


class HitStatus(enum.StrEnum):
    """The state of a HIT: ours before it is posted, then the marketplace's."""

    PLANNED = "planned"
    HELD = "held"
    REFUSED = "refused"
    ASSIGNABLE = "assignable"
    UNASSIGNABLE = "unassignable"
    REVIEWABLE = "reviewable"
    REVIEWING = "reviewing"
    DISPOSED = "disposed"


class AssignmentStatus(enum.StrEnum):
    """The state of an assignment."""

    ACCEPTED = "accepted"
    RETURNED = "returned"
    ABANDONED = "abandoned"
    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"


class SessionStatus(enum.StrEnum):
    """The state of a work session; only confirmed work counts."""

    OPEN = "open"
    SUBMITTED = "submitted"
    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    EXPIRED = "expired"


class Hit(Numbered):
    """A piece of work on the marketplace; the row is committed before it is posted."""

    __tablename__ = "hit"
    __table_args__ = (
        ForeignKeyConstraint(["round_id", "task_id"], ["round.id", "round.task_id"], ondelete="RESTRICT"),
        UniqueConstraint("public_id"),
        UniqueConstraint("key"),
        UniqueConstraint("marketplace", "external_id"),
        UniqueConstraint("id", "task_id"),
        UniqueConstraint("id", "marketplace"),
        index("ix_hit_round", "round_id", "status"),
        index("ix_hit_status", "marketplace", "status", "id"),
        index("ix_hit_unfinished", "marketplace", "id", where="finished_at IS NULL"),
        one_of("kind", HitKind),
        one_of("status", HitStatus),
        check("round", "kind = 'quiz' OR round_id IS NOT NULL"),
        *filled("marketplace", "external_id"),
        check("key", "length(key) BETWEEN 1 AND 64"),
        *whole_cents("reward_cents"),
        *at_least(1, "max_assignments", "assignment_seconds"),
        together("posted", "status NOT IN ('planned', 'held', 'refused')", "external_id"),
        together("posted_time", "external_id IS NOT NULL", "posted_at"),
    )

    public_id: Mapped[uuid.UUID]
    # The idempotency token, which the marketplace stores with the HIT.
    key: Mapped[str] = mapped_column(LimitedText(64))
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    round_id: Mapped[int | None] = mapped_column(default=None)
    kind: Mapped[HitKind]
    status: Mapped[HitStatus] = mapped_column(default=HitStatus.PLANNED)
    marketplace: Mapped[str] = mapped_column(LimitedText(40))
    external_id: Mapped[str | None] = mapped_column(LimitedText(255), default=None)
    group_id: Mapped[str | None] = mapped_column(LimitedText(255), default=None)
    reward_cents: Mapped[int] = mapped_column(Cents)
    max_assignments: Mapped[int]
    assignment_seconds: Mapped[int]
    created_at: Mapped[datetime]
    posted_at: Mapped[datetime | None] = mapped_column(default=None)
    # Before posting: when it should expire.
    expires_at: Mapped[datetime | None] = mapped_column(default=None)
    # Committed before the first call: a planned HIT with this set may or may not exist on the marketplace.
    sent_at: Mapped[datetime | None] = mapped_column(default=None)
    # Set when the HIT can no longer be taken and all submitted work is decided.
    finished_at: Mapped[datetime | None] = mapped_column(default=None)
    last_error: Mapped[str | None] = mapped_column(default=None)


class Assignment(Numbered):
    """One worker's take of a HIT, as the marketplace reports it."""

    __tablename__ = "assignment"
    __table_args__ = (
        ForeignKeyConstraint(["hit_id", "marketplace"], ["hit.id", "hit.marketplace"], ondelete="RESTRICT"),
        ForeignKeyConstraint(["worker_id", "marketplace"], ["worker.id", "worker.marketplace"], ondelete="RESTRICT"),
        UniqueConstraint("marketplace", "external_id"),
        UniqueConstraint("id", "worker_id"),
        UniqueConstraint("id", "hit_id", "worker_id"),
        index(
            "uq_assignment_done_once", "hit_id", "worker_id", unique=True,
            where="status IN ('submitted', 'approved', 'rejected')",
        ),
        index("ix_assignment_hit", "hit_id", "status"),
        index("ix_assignment_worker", "worker_id", "id"),
        index("ix_assignment_undecided", "auto_approve_at", where="status = 'submitted'"),
        one_of("status", AssignmentStatus),
        *filled("external_id"),
        *at_least(0, "active_ms"),
        together("submitted", "status IN ('submitted', 'approved', 'rejected')", "submitted_at"),
        together("decided", "status IN ('approved', 'rejected')", "decided_at"),
        together("decided_by", "decided_at IS NOT NULL", "decided_by"),
        check("reason", "status <> 'rejected' OR (reason IS NOT NULL AND trim(reason) <> '')"),
    )  # fmt: skip

    hit_id: Mapped[int]
    worker_id: Mapped[int]
    marketplace: Mapped[str] = mapped_column(LimitedText(40))
    external_id: Mapped[str] = mapped_column(LimitedText(255))
    status: Mapped[AssignmentStatus]
    accepted_at: Mapped[datetime]
    submitted_at: Mapped[datetime | None] = mapped_column(default=None)
    auto_approve_at: Mapped[datetime | None] = mapped_column(default=None)
    decided_at: Mapped[datetime | None] = mapped_column(default=None)
    decided_by: Mapped[str | None] = mapped_column(LimitedText(120), default=None)
    reason: Mapped[str | None] = mapped_column(default=None)
    active_ms: Mapped[int | None] = mapped_column(default=None)


class WorkSession(Numbered):
    """A worker's page: one per claimed (assignment, worker).

    The marketplace does not sign the claim. The session is confirmed only by the mirrored assignment of the same HIT
    and worker.
    """

    __tablename__ = "work_session"
    __table_args__ = (
        ForeignKeyConstraint(
            ["assignment_id", "hit_id", "worker_id"],
            ["assignment.id", "assignment.hit_id", "assignment.worker_id"],
            ondelete="RESTRICT",
        ),
        UniqueConstraint("public_id"),
        UniqueConstraint("hit_id", "claimed_assignment", "worker_id"),
        UniqueConstraint("assignment_id"),
        UniqueConstraint("id", "worker_id"),
        index("ix_work_session_worker", "worker_id", "id"),
        index("ix_work_session_open", "expires_at", where="status = 'open'"),
        index("ix_work_session_to_confirm", "id", where="status = 'submitted'"),
        one_of("status", SessionStatus),
        *filled("claimed_assignment"),
        *at_least(0, "active_ms"),
        together("submitted", "status IN ('submitted', 'confirmed', 'unconfirmed')", "submitted_at"),
        together("confirmed", "status = 'confirmed'", "assignment_id"),
        check("in_order", "started_at < expires_at"),
    )

    public_id: Mapped[uuid.UUID]
    hit_id: Mapped[int] = mapped_column(ForeignKey("hit.id", ondelete="RESTRICT"))
    worker_id: Mapped[int] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"))
    claimed_assignment: Mapped[str] = mapped_column(LimitedText(255))
    assignment_id: Mapped[int | None] = mapped_column(default=None)
    status: Mapped[SessionStatus] = mapped_column(default=SessionStatus.OPEN)
    # What the worker has written so far.
    draft: Mapped[dict[str, Any]]
    started_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    submitted_at: Mapped[datetime | None] = mapped_column(default=None)
    active_ms: Mapped[int] = mapped_column(default=0)
    # A fingerprint of this acceptance's submit URL; another one means that the HIT was returned and accepted again.
    acceptance: Mapped[str | None] = mapped_column(LimitedText(64), default=None)
