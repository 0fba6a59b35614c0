"""The workers' pages, put together from the settings."""

from flask import Blueprint

from plugin.backend_judge import BackendJudge
from plugin.errors import SettingsError
from plugin.hit_links import HitLinks
from plugin.settings import PREFIX, Settings
from plugin.store_door import StoreDoor
from plugin.web.work.calls import PageCalls
from plugin.web.work.limits import Limits
from plugin.web.work.packs import PackShelf
from plugin.web.work.page import HitPages
from plugin.web.work.routes import work_blueprint
from plugin.web.work.site import MarketSite
from plugin.web.work.tokens import PageTokens
from round_manager.clock import Clock, SystemClock


def work_pages(settings: Settings, door: StoreDoor, clock: Clock | None = None) -> Blueprint:
    """The pages of the HITs that link to this web app; nothing is read or asked yet."""
    time = clock or SystemClock()
    secrets = settings.signing_secrets()
    limits, tokens, site = Limits(), PageTokens(secrets), MarketSite(settings.crowd_sites)
    judge = BackendJudge(settings.ml_backend_url, secrets, auth=_auth(settings), now=time.now)
    links, packs = HitLinks(settings.hit_pages, secrets), PackShelf(settings.templates_path)
    pages = HitPages(door, links, tokens, site, packs, time, limits)
    return work_blueprint(pages, PageCalls(door, judge, time, limits), tokens, site, limits)


def _auth(settings: Settings) -> tuple[str, str] | None:
    if not settings.ml_backend_auth:
        return None
    user, _, password = settings.ml_backend_auth.partition(":")
    if not (user and password):
        raise SettingsError(f"{PREFIX}ML_BACKEND_AUTH is written as user:password; correct it")
    return user, password
