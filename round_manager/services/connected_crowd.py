"""A connected crowd: the port together with what posts, collects, pays and reconciles through it."""

from dataclasses import dataclass

from crowd.port import Crowd
from round_manager.crowd.calls import check_account
from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_posting import HitPoster, PageUrl
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.reconciliation import Reconciler
from round_manager.crowd.reviews import Rejections
from round_manager.crowd.workers import WorkerAccess
from round_manager.services.context import Actor, ServiceContext


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


def account_cents(context: ServiceContext, crowd: ConnectedCrowd) -> int:
    """Return the account's balance; raise WrongCrowdAccount if it is not the account of our posted HITs."""
    cents = crowd.crowd.balance()
    check_account(context.store, crowd.crowd, now=context.now())
    return cents
