"""The workers' pages, put together from the settings."""

from flask import Blueprint

from common.clock import Clock, SystemClock
from plugin.backend_client import BackendJudge
from plugin.crowd import crowd_profile
from plugin.hit_links import HitLinks
from plugin.lazy_store import LazyStore
from plugin.settings import Settings
from plugin.web.work.calls import PageCalls
from plugin.web.work.limits import Limits
from plugin.web.work.packs import PackShelf
from plugin.web.work.page import HitPages
from plugin.web.work.routes import work_blueprint
from plugin.web.work.site import MarketSite
from plugin.web.work.tokens import PageTokens


def work_pages(
    settings: Settings, lazy_store: LazyStore, clock: Clock | None = None, limits: Limits | None = None
) -> Blueprint:
    """The pages of the HITs that link to this web app; nothing is read or asked yet."""
    time = clock or SystemClock()
    secrets = settings.signing_secrets()
    rates, tokens, site = limits or Limits(), PageTokens(secrets), MarketSite(settings.crowd_sites)
    judge = BackendJudge(settings.ml_backend_url, secrets, auth=settings.backend_auth, now=time.now)
    links, packs = HitLinks(settings.hit_pages, secrets), PackShelf(settings.templates_path)
    profile = crowd_profile(settings)
    pages = HitPages(lazy_store, links, tokens, site, packs, time, rates, profile.page)
    return work_blueprint(pages, PageCalls(lazy_store, judge, time, rates, profile.worker_return), tokens, site, rates)
