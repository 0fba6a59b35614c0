"""Tables of requesters and workers: their money, sign-ins, qualifications, blocks and messages."""

import enum
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from mturk.marketplace.tables.base import Base, NumberedRow


class GrantStatus(enum.StrEnum):
    """Whether a worker still has a qualification."""

    GRANTED = "Granted"
    REVOKED = "Revoked"


class Release(Base):
    """The schema version of the database; one row."""

    __tablename__ = "market_release"

    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class Account(Base):
    """An account with its balance: `deposits`, `fees`, `payouts`, `available:…`, `held:…` and `worker:…`."""

    __tablename__ = "account"
    # `deposits` is the source of all money, so its balance is negative.
    __table_args__ = (CheckConstraint("name = 'deposits' OR balance_cents >= 0", "never_negative"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    balance_cents: Mapped[int] = mapped_column(default=0)


class Movement(NumberedRow, Base):
    """Money moved from one account to another; rows are never changed."""

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


class Payout(NumberedRow, Base):
    """A batch that paid every worker's balance at one time."""

    __tablename__ = "payout"

    id: Mapped[str] = mapped_column(unique=True)
    # The time of the previous payout; None for the first.
    since: Mapped[datetime | None]
    made_at: Mapped[datetime]


class PayoutLine(Base):
    """One worker's share of a payout, with the name that the worker had then."""

    __tablename__ = "payout_line"
    __table_args__ = (CheckConstraint("cents > 0", "pays_something"),)

    payout_id: Mapped[str] = mapped_column(ForeignKey("payout.id"), primary_key=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), primary_key=True)
    name: Mapped[str]
    cents: Mapped[int]


class Requester(NumberedRow, Base):
    """An account that posts HITs and pays for them; `id` is MTurk's customer id."""

    __tablename__ = "requester"

    id: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime]


class AccessKey(Base):
    """A key that signs a requester's API calls."""

    __tablename__ = "access_key"

    id: Mapped[str] = mapped_column(primary_key=True)
    # Not hashed: verifying a signature needs the secret itself.
    secret: Mapped[str]
    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"), index=True)
    created_at: Mapped[datetime]


class RequesterApp(Base):
    """The address of a requester's web app, which answers inquiries; set by the operator of the marketplace."""

    __tablename__ = "requester_app"

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"), primary_key=True)
    url: Mapped[str]


class Worker(Base):
    """A worker; `approved` and `rejected` count assignments."""

    __tablename__ = "worker"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    # Two capital letters (ISO 3166), or empty when unknown.
    country: Mapped[str]
    adult: Mapped[bool]
    created_at: Mapped[datetime]
    approved: Mapped[int] = mapped_column(default=0)
    rejected: Mapped[int] = mapped_column(default=0)


class Invitation(NumberedRow, Base):
    """A link that signs one worker in, once."""

    __tablename__ = "invitation"

    token_hash: Mapped[str] = mapped_column(unique=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    made_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None] = mapped_column(default=None)


class Login(NumberedRow, Base):
    """A browser in which a worker is signed in."""

    __tablename__ = "login"

    token_hash: Mapped[str] = mapped_column(unique=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    made_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    # Whether the next task of a group is accepted as soon as one is submitted.
    keeps_going: Mapped[bool] = mapped_column(default=True)


class SiteAddress(Base):
    """The public URL under which the site was last served, for links; one row."""

    __tablename__ = "site_address"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    url: Mapped[str]


class QualificationType(NumberedRow, Base):
    """A qualification that a requester grants to workers."""

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


class Grant(NumberedRow, Base):
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


class Block(NumberedRow, Base):
    """A worker who is blocked by a requester."""

    __tablename__ = "block"
    __table_args__ = (UniqueConstraint("requester_id", "worker_id"),)

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    reason: Mapped[str]
    blocked_at: Mapped[datetime]


class Message(NumberedRow, Base):
    """A message from a requester to a worker, shown on the worker site."""

    __tablename__ = "message"

    requester_id: Mapped[str] = mapped_column(ForeignKey("requester.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    subject: Mapped[str]
    text: Mapped[str]
    sent_at: Mapped[datetime]
    read_at: Mapped[datetime | None] = mapped_column(default=None)
