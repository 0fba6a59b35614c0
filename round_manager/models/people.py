"""Workers, who are created when they first appear, qualifications and blocks."""

from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from round_manager.database.columns import LimitedText
from round_manager.errors import DuplicateError
from round_manager.models.table import Numbered, check, filled, index


class Worker(Numbered):
    """A pseudonymous person on one marketplace, or an annotator in Label Studio.

    Quality and earnings are computed from votes and the ledger, so no figure of theirs is kept here.
    """

    __tablename__ = "worker"
    __table_args__ = (
        UniqueConstraint("marketplace", "external_id"),
        UniqueConstraint("id", "marketplace"),
        *filled("marketplace", "external_id"),
    )

    marketplace: Mapped[str] = mapped_column(LimitedText(40))
    external_id: Mapped[str] = mapped_column(LimitedText(255))
    first_seen_at: Mapped[datetime]


class Qualification(Numbered):
    """The marketplace's qualification for a task."""

    __tablename__ = "qualification"
    __table_args__ = (
        UniqueConstraint("task_id", "marketplace", "name"),
        UniqueConstraint("marketplace", "external_id"),
        *filled("marketplace", "name", "external_id"),
    )

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    marketplace: Mapped[str] = mapped_column(LimitedText(40))
    name: Mapped[str] = mapped_column(LimitedText(80))
    # Empty until the marketplace has made it.
    external_id: Mapped[str | None] = mapped_column(LimitedText(255), default=None)
    created_at: Mapped[datetime]


class QualificationGrant(Numbered):
    """The period during which a worker holds a qualification; rows are never deleted."""

    __tablename__ = "qualification_grant"
    __table_args__ = (
        index("uq_qualification_grant_held", "qualification_id", "worker_id", unique=True, where="revoked_at IS NULL"),
        index("ix_qualification_grant_worker", "worker_id"),
        check("reason", "revoked_at IS NULL OR trim(reason) <> ''"),
    )

    qualification_id: Mapped[int] = mapped_column(ForeignKey("qualification.id", ondelete="RESTRICT"))
    worker_id: Mapped[int] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"))
    score: Mapped[int]
    granted_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None] = mapped_column(default=None)
    reason: Mapped[str] = mapped_column(default="")


class Block(Numbered):
    """A block: the worker gets no work, on one task or on all, until it is lifted."""

    __tablename__ = "block"
    __table_args__ = (
        index("uq_block_everywhere", "worker_id", unique=True, where="lifted_at IS NULL AND task_id IS NULL"),
        index("uq_block_task", "worker_id", "task_id", unique=True, where="lifted_at IS NULL AND task_id IS NOT NULL"),
        *filled("reason", "blocked_by"),
    )

    worker_id: Mapped[int] = mapped_column(ForeignKey("worker.id", ondelete="RESTRICT"))
    # Empty: on all tasks.
    task_id: Mapped[int | None] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"), default=None)
    reason: Mapped[str]
    blocked_by: Mapped[str] = mapped_column(LimitedText(120))
    blocked_at: Mapped[datetime]
    lifted_at: Mapped[datetime | None] = mapped_column(default=None)


def ensure_worker(session: Session, marketplace: str, external_id: str, *, now: datetime) -> Worker:
    """Return the worker with this id on a marketplace or in Label Studio; create them if they are new."""
    wanted = select(Worker).where(Worker.marketplace == marketplace, Worker.external_id == external_id)
    found = session.scalar(wanted)
    if found is not None:
        return found
    worker = Worker(marketplace=marketplace, external_id=external_id, first_seen_at=now)
    try:
        with session.begin_nested():
            session.add(worker)
    except DuplicateError:  # Another process created them in the meantime.
        return session.scalars(wanted).one()
    return worker
