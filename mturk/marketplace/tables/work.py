"""Tables of HITs and assignments, request tokens, subscriptions and outgoing events."""

import enum
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from mturk.marketplace.tables.base import Base, NumberedRow

# How long a used request token is refused.
TOKEN_LIFE = timedelta(hours=24)


class HitStatus(enum.StrEnum):
    """The status of a HIT, with MTurk's names."""

    ASSIGNABLE = "Assignable"
    UNASSIGNABLE = "Unassignable"
    REVIEWABLE = "Reviewable"
    REVIEWING = "Reviewing"
    DISPOSED = "Disposed"


class AssignmentStatus(enum.StrEnum):
    """The status of an assignment; requesters see only the last three."""

    FREE = "Free"
    ACCEPTED = "Accepted"
    SUBMITTED = "Submitted"
    APPROVED = "Approved"
    REJECTED = "Rejected"


class HitType(NumberedRow, Base):
    """The parameters that the HITs of one group share; equal parameters are the same type."""

    __tablename__ = "hit_type"
    __table_args__ = (UniqueConstraint("requester_id", "fingerprint"),)

    id: Mapped[str] = mapped_column(unique=True)
    group_id: Mapped[str] = mapped_column(unique=True)
    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    fingerprint: Mapped[str]
    title: Mapped[str]
    description: Mapped[str]
    keywords: Mapped[str]
    reward_cents: Mapped[int]
    assignment_seconds: Mapped[int]
    auto_approve_seconds: Mapped[int]
    # MTurk's QualificationRequirements.
    requirements: Mapped[list[Any]]


class Hit(NumberedRow, Base):
    """Work for up to `max_assignments` workers; what is not pending, undecided or completed is available."""

    __tablename__ = "hit"
    __table_args__ = (
        CheckConstraint("pending >= 0 AND undecided >= 0 AND completed >= 0", "counts"),
        CheckConstraint("pending + undecided + completed <= max_assignments", "never_too_many"),
        CheckConstraint("held_cents >= 0", "hold"),
        Index("ix_hit_listing", "requester_id", "listed", "number"),
        Index("ix_hit_work", "status", "type_id", "number"),
        Index("ix_hit_review", "requester_id", "status", "number"),
        Index("ix_hit_expiry", "expired", "expires_at"),
    )

    id: Mapped[str] = mapped_column(unique=True)
    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    type_id: Mapped[str] = mapped_column(ForeignKey("hit_type.id"))
    question: Mapped[str]
    page_url: Mapped[str]
    frame_height: Mapped[int]
    annotation: Mapped[str | None]
    max_assignments: Mapped[int]
    # The cost of one assignment, fixed when the HIT was created.
    reward_cents: Mapped[int]
    fee_cents: Mapped[int]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    expired: Mapped[bool] = mapped_column(default=False)
    listed: Mapped[bool] = mapped_column(default=True)
    status: Mapped[HitStatus] = mapped_column(default=HitStatus.ASSIGNABLE)
    pending: Mapped[int] = mapped_column(default=0)
    undecided: Mapped[int] = mapped_column(default=0)
    completed: Mapped[int] = mapped_column(default=0)
    held_cents: Mapped[int] = mapped_column(default=0)

    @property
    def available(self) -> int:
        """The number of assignments that no worker has; the status says whether they can be accepted."""
        return self.max_assignments - self.pending - self.undecided - self.completed


class Assignment(NumberedRow, Base):
    """One worker's assignment of a HIT; after a return, the same row is given to another worker."""

    __tablename__ = "assignment"
    __table_args__ = (
        # A worker has at most one assignment of a HIT; free assignments have no worker.
        Index("uq_assignment_worker", "hit_id", "worker_id", unique=True),
        Index("ix_assignment_worker", "worker_id", "status"),
        Index("ix_assignment_deadline", "status", "deadline"),
        Index("ix_assignment_auto", "status", "auto_approve_at"),
        CheckConstraint("(status = 'Free') = (worker_id IS NULL)", "held_by_somebody"),
    )

    id: Mapped[str] = mapped_column(unique=True)
    hit_id: Mapped[str] = mapped_column(ForeignKey("hit.id"))
    status: Mapped[AssignmentStatus]
    worker_id: Mapped[str | None] = mapped_column(ForeignKey("worker.id"))
    accepted_at: Mapped[datetime | None]
    deadline: Mapped[datetime | None]
    submitted_at: Mapped[datetime | None] = mapped_column(default=None)
    auto_approve_at: Mapped[datetime | None] = mapped_column(default=None)
    approved_at: Mapped[datetime | None] = mapped_column(default=None)
    rejected_at: Mapped[datetime | None] = mapped_column(default=None)
    feedback: Mapped[str] = mapped_column(default="")
    # MTurk's QuestionFormAnswers.
    answer: Mapped[str] = mapped_column(default="")


class SubmitPass(Base):
    """The hashed secret that submits one acceptance; deleted when the assignment is released."""

    __tablename__ = "submit_pass"

    token_hash: Mapped[str] = mapped_column(primary_key=True)
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), index=True)


class ReturnedHit(NumberedRow, Base):
    """A HIT that a worker accepted and returned, or did not submit in time."""

    __tablename__ = "passed"
    __table_args__ = (Index("ix_passed_worker", "worker_id", "hit_id"),)

    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"))
    hit_id: Mapped[str] = mapped_column(ForeignKey("hit.id"))
    assignment_id: Mapped[str]
    abandoned: Mapped[bool]
    passed_at: Mapped[datetime]


class Bonus(NumberedRow, Base):
    """A bonus that was paid."""

    __tablename__ = "bonus"

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    hit_id: Mapped[str] = mapped_column(ForeignKey("hit.id"), index=True)
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), index=True)
    cents: Mapped[int]
    fee_cents: Mapped[int]
    reason: Mapped[str]
    paid_at: Mapped[datetime]


class RequestToken(Base):
    """A token that a requester used for an operation, and the id of its result; deleted after a day."""

    __tablename__ = "request_token"

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"), primary_key=True)
    operation: Mapped[str] = mapped_column(primary_key=True)
    token: Mapped[str] = mapped_column(primary_key=True)
    made: Mapped[str]
    used_at: Mapped[datetime] = mapped_column(index=True)


class Subscription(Base):
    """The queue that receives the events of a HIT type."""

    __tablename__ = "subscription"

    type_id: Mapped[str] = mapped_column(ForeignKey("hit_type.id"), primary_key=True)
    destination: Mapped[str]
    transport: Mapped[str]
    version: Mapped[str]
    event_types: Mapped[list[Any]]
    active: Mapped[bool] = mapped_column(default=True)


class OutgoingEvent(NumberedRow, Base):
    """An event that is to be delivered."""

    __tablename__ = "outgoing_event"

    destination: Mapped[str]
    body: Mapped[str]
    made_at: Mapped[datetime]
    due_at: Mapped[datetime] = mapped_column(index=True)
    tries: Mapped[int] = mapped_column(default=0)
