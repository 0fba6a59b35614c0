"""What every use case needs: the database, the clock, and who acts.

A use case that changes something takes an `Actor`, whether or not it writes an audit entry itself; one that only reads
takes none. Neither do the calls of a worker's page, where the session says who works, nor what a rule decides without
anyone: counting votes, ending overdue work, granting passed quizzes. A `ConnectedCrowd` already has its database and
its clock, so a use case that only calls it takes no `ServiceContext`.
"""

import enum
from dataclasses import dataclass
from datetime import datetime

from common.clock import Clock
from crowd.port import Crowd
from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_posting import HitPoster, PageUrl
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.reconciliation import Reconciler
from round_manager.crowd.reviews import Rejections
from round_manager.crowd.workers import WorkerAccess
from round_manager.database.store import Store


class Role(enum.StrEnum):
    """What an actor may do."""

    OWNER = "owner"
    REVIEWER = "reviewer"
    VENDOR = "vendor"
    VIEWER = "viewer"
    RESEARCHER = "researcher"
    SYSTEM = "system"


@dataclass(frozen=True)
class Actor:
    """The person or process that acts, as the audit log names them."""

    name: str
    role: Role = Role.OWNER


@dataclass(frozen=True)
class ServiceContext:
    """The database and the clock of a use case."""

    store: Store
    clock: Clock

    def now(self) -> datetime:
        """Return the current time."""
        return self.clock.now()


@dataclass(frozen=True)
class ConnectedCrowd:
    """One marketplace and one database, with everything that works between them."""

    crowd: Crowd
    poster: HitPoster
    collector: Collector
    payments: PaymentSender
    reconciler: Reconciler
    rejections: Rejections
    access: WorkerAccess

    @property
    def name(self) -> str:
        """The marketplace's name in our database."""
        return self.crowd.name


def connect_crowd(
    context: ServiceContext, actor: Actor, crowd: Crowd, page_url: PageUrl, *, queue_url: str = ""
) -> ConnectedCrowd:
    """Return a crowd that is connected to the database; nothing is sent yet."""
    store, clock = context.store, context.clock
    poster = HitPoster(store, crowd, clock, page_url, queue_url=queue_url)
    payments = PaymentSender(store, crowd, clock, actor=actor.name)
    return ConnectedCrowd(
        crowd=crowd,
        poster=poster,
        collector=Collector(store, crowd, clock),
        payments=payments,
        reconciler=Reconciler(store, crowd, clock, poster, payments),
        rejections=Rejections(store, crowd, clock),
        access=WorkerAccess(store, crowd, clock),
    )
