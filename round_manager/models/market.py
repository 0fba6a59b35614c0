"""The marketplace: workers with their qualifications and blocks, HITs, assignments, and the work sessions on them."""

import enum
import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Mapped, Session, mapped_column

from round_manager.database.columns import Cents, Json, LimitedText
from round_manager.models import table


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


# Sessions that count for their worker. Expired and unconfirmed ones do not: anyone with the link can open a page.
VALID_SESSIONS = (SessionStatus.OPEN, SessionStatus.SUBMITTED, SessionStatus.CONFIRMED)


class Hit(table.Numbered):
    """A piece of work on the marketplace; the row is committed before it is posted."""

    __tablename__ = "hit"
    __table_args__ = (
        table.references(round_id="round.id", task_id="round.task_id"),
        UniqueConstraint("public_id"),
        UniqueConstraint("key"),
        UniqueConstraint("marketplace", "external_id"),
        UniqueConstraint("id", "task_id"),
        UniqueConstraint("id", "marketplace"),
        table.index("ix_hit_round", "round_id", "status"),
        table.index("ix_hit_status", "marketplace", "status", "id"),
        table.index("ix_hit_unfinished", "marketplace", "id", where="finished_at IS NULL"),
        table.one_of("kind", HitKind),
        table.one_of("status", HitStatus),
        table.check("round", "kind = 'quiz' OR round_id IS NOT NULL"),
        *table.filled("marketplace", "external_id"),
        table.check("key", "length(key) BETWEEN 1 AND 64"),
        *table.whole_cents("reward_cents"),
        *table.at_least(1, "max_assignments", "assignment_seconds"),
        table.together("posted", "status NOT IN ('planned', 'held', 'refused')", "external_id"),
        table.together("posted_time", "external_id IS NOT NULL", "posted_at"),
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


class Assignment(table.Numbered):
    """One worker's take of a HIT, as the marketplace reports it."""

    __tablename__ = "assignment"
    __table_args__ = (
        table.references(hit_id="hit.id", marketplace="hit.marketplace"),
        table.references(worker_id="worker.id", marketplace="worker.marketplace"),
        UniqueConstraint("marketplace", "external_id"),
        UniqueConstraint("id", "worker_id"),
        UniqueConstraint("id", "hit_id", "worker_id"),
        table.index(
            "uq_assignment_done_once", "hit_id", "worker_id", unique=True,
            where="status IN ('submitted', 'approved', 'rejected')",
        ),
        table.index("ix_assignment_hit", "hit_id", "status"),
        table.index("ix_assignment_worker", "worker_id", "id"),
        table.index("ix_assignment_undecided", "auto_approve_at", where="status = 'submitted'"),
        table.one_of("status", AssignmentStatus),
        *table.filled("external_id"),
        *table.at_least(0, "active_ms"),
        table.together("submitted", "status IN ('submitted', 'approved', 'rejected')", "submitted_at"),
        table.together("decided", "status IN ('approved', 'rejected')", "decided_at"),
        table.together("decided_by", "decided_at IS NOT NULL", "decided_by"),
        table.check("reason", "status <> 'rejected' OR (reason IS NOT NULL AND trim(reason) <> '')"),
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
    # The time that was credited; none if the assignment was collected by a version that measured time differently.
    active_ms: Mapped[int | None] = mapped_column(default=None)


class CreditedSpan(table.Numbered):
    """A span of a worker's time that was credited to one assignment; the spans of a worker never overlap."""

    __tablename__ = "credited_span"
    __table_args__ = (
        table.references(assignment_id="assignment.id", worker_id="assignment.worker_id"),
        UniqueConstraint("worker_id", "starts_at"),
        table.index("ix_credited_span_worker", "worker_id", "ends_at"),
        table.index("ix_credited_span_assignment", "assignment_id"),
        table.check("in_order", "starts_at < ends_at"),
    )

    assignment_id: Mapped[int]
    worker_id: Mapped[int]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]


class WorkSession(table.Numbered):
    """A worker's page: one per claimed (assignment, worker).

    The marketplace does not sign the claim. The session is confirmed only by the mirrored assignment of the same HIT
    and worker.
    """

    __tablename__ = "work_session"
    __table_args__ = (
        table.references(assignment_id="assignment.id", hit_id="assignment.hit_id", worker_id="assignment.worker_id"),
        UniqueConstraint("public_id"),
        UniqueConstraint("hit_id", "claimed_assignment", "worker_id"),
        UniqueConstraint("assignment_id"),
        UniqueConstraint("id", "worker_id"),
        table.index("ix_work_session_worker", "worker_id", "id"),
        table.index("ix_work_session_open", "expires_at", where="status = 'open'"),
        table.index("ix_work_session_to_confirm", "id", where="status = 'submitted'"),
        table.index("ix_work_session_empty", "hit_id", where="empty_at IS NOT NULL"),
        table.one_of("status", SessionStatus),
        *table.filled("claimed_assignment"),
        *table.at_least(0, "active_ms"),
        table.together("submitted", "status IN ('submitted', 'confirmed', 'unconfirmed')", "submitted_at"),
        table.together("confirmed", "status = 'confirmed'", "assignment_id"),
        table.check("in_order", "started_at < expires_at"),
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
    # What the page has claimed so far.
    active_ms: Mapped[int] = mapped_column(default=0)
    # A fingerprint of this acceptance's submit URL; another one means that the HIT was returned and accepted again.
    acceptance: Mapped[str | None] = mapped_column(LimitedText(64), default=None)
    # A fingerprint of the browser that the page belongs to, since when (by the marketplace's clock if it proved the
    # acceptance), and about when that browser called last.
    browser: Mapped[str | None] = mapped_column(LimitedText(64), default=None)
    bound_at: Mapped[datetime | None] = mapped_column(default=None)
    browser_seen_at: Mapped[datetime | None] = mapped_column(default=None)
    # The moments of active_ms (see work.spans); none if nothing was reported yet.
    active_spans: Mapped[list[list[int]] | None] = mapped_column(Json, default=None)
    # Set if the page held nothing when it was opened, and its reward is paid anyway.
    empty_at: Mapped[datetime | None] = mapped_column(default=None)


class Worker(table.Numbered):
    """A pseudonymous person on one marketplace, or an annotator in Label Studio.

    Quality and earnings are computed from votes and the ledger, so no figure of theirs is kept here.
    """

    __tablename__ = "worker"
    __table_args__ = (
        UniqueConstraint("marketplace", "external_id"),
        UniqueConstraint("id", "marketplace"),
        *table.filled("marketplace", "external_id"),
        table.truth("simulated"),
        table.index("ix_worker_simulated", "id", where="simulated"),
    )

    marketplace: Mapped[str] = mapped_column(LimitedText(40))
    external_id: Mapped[str] = mapped_column(LimitedText(255))
    first_seen_at: Mapped[datetime]
    # A program in place of a person, as in the demo; their pseudonyms say so.
    simulated: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # What the owner calls this person. It stays in the database: archives and `/data` have pseudonyms only.
    name: Mapped[str | None] = mapped_column(LimitedText(200), default=None)
    # The language that the worker chose for their pages; without one, their task and their browser decide.
    language: Mapped[str | None] = mapped_column(LimitedText(20), default=None)


class WorkerGroup(table.Numbered):
    """A group of workers, such as the annotators of one vendor."""

    __tablename__ = "worker_group"
    __table_args__ = (UniqueConstraint("name"), *table.filled("name"))

    name: Mapped[str] = mapped_column(LimitedText(80))
    created_at: Mapped[datetime]


class GroupMember(table.Table):
    """A worker who is in a group; a worker can be in several."""

    __tablename__ = "group_member"
    __table_args__ = (table.index("ix_group_member_worker", "worker_id"),)

    group_id: Mapped[int] = mapped_column(
        ForeignKey("worker_group.id", ondelete="RESTRICT"), primary_key=True, autoincrement=False
    )
    worker_id: Mapped[int] = mapped_column(
        ForeignKey("worker.id", ondelete="RESTRICT"), primary_key=True, autoincrement=False
    )
    added_at: Mapped[datetime]


class RoundGroup(table.Table):
    """A group whose members may work on a round; a round without groups is for everyone."""

    __tablename__ = "round_group"
    __table_args__ = (table.references(round_id="round.id"), table.index("ix_round_group_group", "group_id"))

    round_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    group_id: Mapped[int] = mapped_column(
        ForeignKey("worker_group.id", ondelete="RESTRICT"), primary_key=True, autoincrement=False
    )
    assigned_at: Mapped[datetime]


def ensure_worker(session: Session, marketplace: str, external_id: str, *, now: datetime) -> Worker:
    """Return the worker with this id on a marketplace or in Label Studio; create them if they are new."""
    wanted = select(Worker).where(Worker.marketplace == marketplace, Worker.external_id == external_id)
    return session.scalar(wanted) or add_worker(session, marketplace, external_id, now=now)


def add_worker(session: Session, marketplace: str, external_id: str, *, now: datetime) -> Worker:
    """Create a worker, and return them; if another process does so at the same moment, return theirs."""
    wanted = select(Worker).where(Worker.marketplace == marketplace, Worker.external_id == external_id)
    new = {"marketplace": marketplace, "external_id": external_id, "first_seen_at": now}
    added = session.scalar(_ADD_WORKER[session.get_bind().dialect.name], new)
    return added or session.scalars(wanted).one()


# Built once: each first page of a worker runs one of them.
_ADD_WORKER: dict[str, Any] = {
    "postgresql": postgresql.insert(Worker).on_conflict_do_nothing().returning(Worker),
    "sqlite": sqlite.insert(Worker).on_conflict_do_nothing().returning(Worker),
}


class Qualification(table.Numbered):
    """The marketplace's qualification for a task."""

    __tablename__ = "qualification"
    __table_args__ = (
        UniqueConstraint("task_id", "marketplace", "name"),
        UniqueConstraint("marketplace", "external_id"),
        *table.filled("marketplace", "name", "external_id"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    marketplace: Mapped[str] = mapped_column(LimitedText(40))
    name: Mapped[str] = mapped_column(LimitedText(80))
    # Empty until the marketplace has made it.
    external_id: Mapped[str | None] = mapped_column(LimitedText(255), default=None)
    created_at: Mapped[datetime]


class QualificationGrant(table.Numbered):
    """The period during which a worker holds a qualification; rows are never deleted."""

    __tablename__ = "qualification_grant"
    __table_args__ = (
        table.index(
            "uq_qualification_grant_held", "qualification_id", "worker_id", unique=True, where="revoked_at IS NULL"
        ),
        table.index("ix_qualification_grant_worker", "worker_id"),
        table.check("reason", "revoked_at IS NULL OR trim(reason) <> ''"),
    )

    qualification_id: Mapped[int] = mapped_column(ForeignKey("qualification.id", ondelete="RESTRICT"))
    worker_id: Mapped[int] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"))
    score: Mapped[int]
    granted_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None] = mapped_column(default=None)
    reason: Mapped[str] = mapped_column(default="")


class Block(table.Numbered):
    """A block: the worker gets no work, on one task or on all, until it is lifted."""

    __tablename__ = "block"
    __table_args__ = (
        table.index("uq_block_everywhere", "worker_id", unique=True, where="lifted_at IS NULL AND task_id IS NULL"),
        table.index(
            "uq_block_task", "worker_id", "task_id", unique=True, where="lifted_at IS NULL AND task_id IS NOT NULL"
        ),
        *table.filled("reason", "blocked_by"),
    )

    worker_id: Mapped[int] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"))
    # Empty: on all tasks.
    task_id: Mapped[int | None] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"), default=None)
    reason: Mapped[str]
    blocked_by: Mapped[str] = mapped_column(LimitedText(120))
    blocked_at: Mapped[datetime]
    lifted_at: Mapped[datetime | None] = mapped_column(default=None)
