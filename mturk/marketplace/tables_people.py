"""Requesters and workers, their money, and what one has to do with the other."""

import enum
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, MappedAsDataclass, mapped_column

from mturk.marketplace.columns import Base, Number


class GrantStatus(enum.StrEnum):
    """Whether a worker still has a qualification."""

    GRANTED = "Granted"
    REVOKED = "Revoked"


class Numbered(MappedAsDataclass, kw_only=True, eq=False, repr=False):
    """A table whose rows are in the order in which they were made."""

    number: Mapped[int] = mapped_column(Number, primary_key=True, init=False, sort_order=-1)


class Release(Base):
    """Which release of these tables a database has; one row."""

    __tablename__ = "market_release"

    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class Account(Base):
    """An account with its balance: `deposits`, `fees`, `payouts`, `available:…`, `held:…` and `worker:…`."""

    __tablename__ = "account"
    # Only what came from outside may be below zero: it is what the marketplace owes the world.
    __table_args__ = (CheckConstraint("name = 'deposits' OR balance_cents >= 0", "never_negative"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    balance_cents: Mapped[int] = mapped_column(default=0)


class Movement(Numbered, Base):
    """Money from one account to another; rows are only ever added."""

    __tablename__ = "movement"
    __table_args__ = (
        CheckConstraint("cents > 0", "moves_something"),
        CheckConstraint("source <> target", "goes_somewhere"),
        Index("ix_movement_source", "source", "target"),
        Index("ix_movement_target", "target"),
    )

    source: Mapped[str] = mapped_column(ForeignKey("account.name"))
    target: Mapped[str] = mapped_column(ForeignKey("account.name"))
    cents: Mapped[int]
    reason: Mapped[str]
    moved_at: Mapped[datetime]
    hit_id: Mapped[str | None] = mapped_column(default=None)
    assignment_id: Mapped[str | None] = mapped_column(default=None)


class Requester(Numbered, Base):
    """Somebody who posts and pays; `id` is what MTurk calls the customer id."""

    __tablename__ = "requester"

    id: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime]


class AccessKey(Base):
    """A key that a requester's calls are signed with."""

    __tablename__ = "access_key"

    id: Mapped[str] = mapped_column(primary_key=True)
    # Not hashed: to verify a signature, the same HMAC has to be computed from the secret itself.
    secret: Mapped[str]
    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"), index=True)
    created_at: Mapped[datetime]


class Worker(Base):
    """Somebody who works; the counts are of decided assignments."""

    __tablename__ = "worker"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    # Two capital letters (ISO 3166), or empty when it is not known.
    country: Mapped[str]
    adult: Mapped[bool]
    created_at: Mapped[datetime]
    approved: Mapped[int] = mapped_column(default=0)
    rejected: Mapped[int] = mapped_column(default=0)


class QualificationType(Numbered, Base):
    """Something that a requester grants to workers."""

    __tablename__ = "qualification_type"
    __table_args__ = (
        Index(
            "uq_qualification_type_name",
            "requester_id",
            "name",
            unique=True,
            sqlite_where=text("NOT deleted"),
            postgresql_where=text("NOT deleted"),
        ),
    )

    id: Mapped[str] = mapped_column(unique=True)
    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    name: Mapped[str]
    description: Mapped[str]
    keywords: Mapped[str]
    active: Mapped[bool]
    created_at: Mapped[datetime]
    retry_seconds: Mapped[int | None] = mapped_column(default=None)
    deleted: Mapped[bool] = mapped_column(default=False)


class Grant(Numbered, Base):
    """A worker's score in a qualification."""

    __tablename__ = "qualification_grant"
    __table_args__ = (
        UniqueConstraint("qualification_id", "worker_id"),
        Index("ix_grant_listing", "qualification_id", "status", "number"),
    )

    qualification_id: Mapped[str] = mapped_column(ForeignKey("qualification_type.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    score: Mapped[int]
    status: Mapped[GrantStatus]
    granted_at: Mapped[datetime]


class Block(Numbered, Base):
    """A worker who gets no work of a requester."""

    __tablename__ = "block"
    __table_args__ = (UniqueConstraint("requester_id", "worker_id"),)

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    reason: Mapped[str]
    blocked_at: Mapped[datetime]


class Message(Numbered, Base):
    """What a requester wrote to a worker; the worker's site shows it."""

    __tablename__ = "message"

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    subject: Mapped[str]
    text: Mapped[str]
    sent_at: Mapped[datetime]
    read_at: Mapped[datetime | None] = mapped_column(default=None)
