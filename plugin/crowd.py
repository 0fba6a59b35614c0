"""The crowd that the settings name: its profile, its connection, its event queue, and the links in its HITs."""

from collections.abc import Sequence
from uuid import UUID

from itsdangerous import BadSignature, Signer

from common.errors import Hint
from crowd.errors import RetryPolicy
from crowd.port import Crowd, EventQueue
from crowd.profile import CrowdProfile
from mturk.profile import MTURK
from plugin.errors import PluginError, SettingsError
from plugin.settings import PREFIX, Settings
from round_manager.models import Hit
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


def connected_crowd(settings: Settings, context: ServiceContext, actor: Actor, crowd: Crowd) -> ConnectedCrowd:
    """Return a crowd that posts, collects and pays with this database; nothing is sent yet."""
    links = HitLinks(settings.hit_pages, settings.signing_secrets())
    return connect_crowd(context, actor, crowd, links.url, queue_url=settings.crowd_queue_url)


_SALT = "outfox.hit.1"


class HitLinks:
    """Links to the pages of HITs, signed so that a HIT cannot be opened by guessing its number.

    The last secret signs; older ones still verify.
    """

    def __init__(self, pages: str, secrets: Sequence[str]) -> None:
        self._pages = pages
        self._signer = Signer(list(secrets), salt=_SALT)

    def url(self, hit: Hit) -> str:
        """Return the address of a HIT's page; the same one each time."""
        return self.url_of(hit.public_id)

    def url_of(self, public_id: UUID) -> str:
        """Return the address of the page of the HIT with that public id."""
        return f"{self._pages}/{public_id.hex}?key={self._key(public_id)}"

    def check(self, hit: str, key: str) -> UUID:
        """Return the public id of the HIT that a link opens."""
        try:
            return UUID(self._signer.unsign(f"{hit}.{key}").decode())
        except (BadSignature, ValueError) as error:
            raise PluginError("this link is not one of ours, or was changed on the way") from error

    def _key(self, public_id: UUID) -> str:
        return self._signer.get_signature(public_id.hex).decode()
