"""The crowd, wired: the marketplace that the settings name, and the services that post, collect, pay and reconcile."""

from dataclasses import dataclass

from common.clock import Clock
from crowd.port import Crowd, EventQueue
from crowd.profile import CrowdProfile
from crowd.retries import RetryPolicy
from mturk.profile import MTURK
from plugin.errors import SettingsError
from plugin.hit_links import HitLinks
from plugin.operator import operator_name
from plugin.settings import PREFIX, Settings
from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_posting import HitPoster
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.qualifications import WorkerAccess
from round_manager.crowd.reconciliation import Reconciler
from round_manager.crowd.reviews import Rejections
from round_manager.database.store import Store

PROFILES = {MTURK.kind: MTURK}
# A person who waits for a command learns after so long that the marketplace does not answer.
SECONDS_TO_WAIT = 20.0


@dataclass(frozen=True)
class ConnectedCrowd:
    """Everything that works with one marketplace and one store."""

    crowd: Crowd
    poster: HitPoster
    collector: Collector
    payments: PaymentSender
    reconciler: Reconciler
    rejections: Rejections
    access: WorkerAccess


def crowd_profile(settings: Settings) -> CrowdProfile:
    """Return the profile of the crowd that the settings name; nothing is contacted."""
    return PROFILES[settings.crowd_kind]


def crowd_of(settings: Settings, retries: RetryPolicy | None = None) -> Crowd:
    """The marketplace that the settings name; nothing is asked of it yet."""
    from mturk.client import open_crowd
    from mturk.connection import Endpoint

    if not settings.has_crowd_keys:
        keys = f"{PREFIX}CROWD_KEY_ID and {PREFIX}CROWD_KEY_SECRET"
        raise SettingsError(f"the marketplace needs access keys: set {keys} (`outfox marketplace account` makes some)")
    endpoint = Endpoint(
        settings.crowd_url,
        settings.crowd_key_id,
        settings.crowd_key_secret,
        name=settings.crowd_name,
        region=settings.crowd_region,
    )
    return open_crowd(endpoint, retries=retries or RetryPolicy(budget=SECONDS_TO_WAIT))


def event_queue(settings: Settings) -> EventQueue | None:
    """Return the queue to which the marketplace sends events, if the settings name one."""
    if not settings.crowd_queue_url:
        return None
    from mturk.event_queue import open_queue

    return open_queue(settings.crowd_queue_url, region=settings.crowd_region)


def crowd_services(settings: Settings, store: Store, crowd: Crowd, clock: Clock) -> ConnectedCrowd:
    """The services on that marketplace and that store."""
    links = HitLinks(settings.hit_pages, settings.signing_secrets())
    poster = HitPoster(store, crowd, clock, links.url, queue_url=settings.crowd_queue_url)
    payments = PaymentSender(store, crowd, clock, who=operator_name())
    return ConnectedCrowd(
        crowd=crowd,
        poster=poster,
        collector=Collector(store, crowd, clock),
        payments=payments,
        reconciler=Reconciler(store, crowd, clock, poster, payments),
        rejections=Rejections(store, crowd, clock),
        access=WorkerAccess(store, crowd, clock),
    )
