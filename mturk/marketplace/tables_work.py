"""HITs and the places at them, and what calls and events leave behind."""

import enum
from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from mturk.marketplace.columns import Base
from mturk.marketplace.tables_people import Numbered


class HitStatus(enum.StrEnum):
    """Where a HIT is, in MTurk's words."""

    ASSIGNABLE = "Assignable"
    UNASSIGNABLE = "Unassignable"
    REVIEWABLE = "Reviewable"
    REVIEWING = "Reviewing"
    DISPOSED = "Disposed"


class AssignmentStatus(enum.StrEnum):
    """Where an assignment is; requesters see the last three only."""

    FREE = "Free"
    ACCEPTED = "Accepted"
    SUBMITTED = "Submitted"
    APPROVED = "Approved"
    REJECTED = "Rejected"


class HitType(Numbered, Base):
    """What the HITs of one group have in common; the same parameters are the same type."""

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
    # As MTurk's QualificationRequirements.
    requirements: Mapped[list[Any]]


class Hit(Numbered, Base):
    """A piece of work for so many workers; what is neither pending, undecided nor completed is available."""

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
    # What one assignment costs, fixed when the HIT was made.
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
        """Assignments that nobody has; whether they can be taken is for the status to say."""
        return self.max_assignments - self.pending - self.undecided - self.completed


class Assignment(Numbered, Base):
    """One worker's place at a HIT; after a return, the same one is given to another worker."""

    __tablename__ = "assignment"
    __table_args__ = (
        # One place for each worker at a HIT: places that nobody has carry no worker.
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
    """What one acceptance of an assignment is handed in with; gone when the assignment is nobody's again."""

    __tablename__ = "submit_pass"

    token_hash: Mapped[str] = mapped_column(primary_key=True)
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), index=True)


class Passed(Numbered, Base):
    """A worker who had an assignment and gave it back, or let its time run out."""

    __tablename__ = "passed"
    __table_args__ = (Index("ix_passed_worker", "worker_id", "hit_id"),)

    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"))
    hit_id: Mapped[str] = mapped_column(ForeignKey("hit.id"))
    assignment_id: Mapped[str]
    abandoned: Mapped[bool]
    passed_at: Mapped[datetime]


class Bonus(Numbered, Base):
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
    """A token that a requester used for an operation, and what came of it; forgotten after a day."""

    __tablename__ = "request_token"

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"), primary_key=True)
    operation: Mapped[str] = mapped_column(primary_key=True)
    token: Mapped[str] = mapped_column(primary_key=True)
    made: Mapped[str]
    used_at: Mapped[datetime] = mapped_column(index=True)


class Subscription(Base):
    """Where the events of a HIT type are sent to."""

    __tablename__ = "subscription"

    type_id: Mapped[str] = mapped_column(ForeignKey("hit_type.id"), primary_key=True)
    destination: Mapped[str]
    transport: Mapped[str]
    version: Mapped[str]
    event_types: Mapped[list[Any]]
    active: Mapped[bool] = mapped_column(default=True)


class OutgoingEvent(Numbered, Base):
    """An event that waits for its delivery."""

    __tablename__ = "outgoing_event"

    destination: Mapped[str]
    body: Mapped[str]
    made_at: Mapped[datetime]
    due_at: Mapped[datetime] = mapped_column(index=True)
    tries: Mapped[int] = mapped_column(default=0)
