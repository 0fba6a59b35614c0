"""What the worker's site and the owner remember, in the marketplace's own database."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Table
from sqlalchemy.orm import Mapped, mapped_column

from mturk.marketplace.columns import Base
from mturk.marketplace.market import Market
from mturk.marketplace.tables import Numbered


class Invitation(Numbered, Base):
    """A link that signs one worker in, once."""

    __tablename__ = "invitation"

    token_hash: Mapped[str] = mapped_column(unique=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    made_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None] = mapped_column(default=None)


class Login(Numbered, Base):
    """A browser in which a worker is signed in."""

    __tablename__ = "login"

    token_hash: Mapped[str] = mapped_column(unique=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), index=True)
    made_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    # Whether the next task of a group is taken as soon as one is handed in.
    keeps_going: Mapped[bool] = mapped_column(default=True)


class Payout(Numbered, Base):
    """A batch of what workers had earned and were not paid out until then."""

    __tablename__ = "payout"

    id: Mapped[str] = mapped_column(unique=True)
    # What was earned from one batch to the next is in the later one; the first goes back to the beginning.
    since: Mapped[datetime | None]
    made_at: Mapped[datetime]


class PayoutLine(Base):
    """One worker's share of a batch, with the name that they had then."""

    __tablename__ = "payout_line"
    __table_args__ = (CheckConstraint("cents > 0", "pays_something"),)

    payout_id: Mapped[str] = mapped_column(ForeignKey("payout.id"), primary_key=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id"), primary_key=True)
    name: Mapped[str]
    cents: Mapped[int]


class SiteAddress(Base):
    """Where the site was reached when it was last served, so that links are right without being told; one row."""

    __tablename__ = "site_address"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    url: Mapped[str]


_TABLES = [
    one.__table__ for one in (Invitation, Login, Payout, PayoutLine, SiteAddress) if isinstance(one.__table__, Table)
]


def make_site_tables(market: Market) -> None:
    """The tables are there after this; a market that only its requester API has used so far has none of them."""
    with market.write() as session:
        Base.metadata.create_all(session.connection(), tables=_TABLES)
