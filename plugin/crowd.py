"""The crowd that the settings name: its profile, its connection, and its event queue."""

from common.errors import Hint
from crowd.errors import RetryPolicy
from crowd.port import Crowd, EventQueue
from crowd.profile import CrowdProfile
from mturk.profile import MTURK
from plugin.errors import SettingsError
from plugin.hit_links import HitLinks
from plugin.operator import operator_name
from plugin.settings import PREFIX, Settings
from round_manager.services.connected_crowd import ConnectedCrowd, connect_crowd
from round_manager.services.context import Actor, ServiceContext

PROFILES = {MTURK.kind: MTURK}
# A command reports after this time that the marketplace does not answer.
SECONDS_TO_WAIT = 20.0


def crowd_profile(settings: Settings) -> CrowdProfile:
    """Return the profile of the crowd that the settings name; nothing is contacted."""
    return PROFILES[settings.crowd_kind]


def crowd_of(settings: Settings, retries: RetryPolicy | None = None) -> Crowd:
    """Return the crowd that the settings name; nothing is sent yet."""
    from mturk.client import open_crowd
    from mturk.connection import Endpoint

    if not settings.has_crowd_keys:
        keys = f"{PREFIX}CROWD_KEY_ID and {PREFIX}CROWD_KEY_SECRET"
        hint = Hint("create_marketplace_account", account="NAME")
        raise SettingsError(f"the marketplace needs access keys: set {keys}", hint=hint)
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


def connected_crowd(settings: Settings, context: ServiceContext, crowd: Crowd) -> ConnectedCrowd:
    """Return a crowd that posts, collects and pays with this database; nothing is sent yet."""
    links = HitLinks(settings.hit_pages, settings.signing_secrets())
    actor = Actor(operator_name())
    return connect_crowd(context, actor, crowd, links.url, queue_url=settings.crowd_queue_url)
