"""One process of `outfox serve`: the web app with its pages, its data, and the threads beside it."""

from pathlib import Path

from flask import Blueprint

from plugin.backend_client import BackendJudge
from plugin.crowd import HitLinks
from plugin.web.app import front_page, ignore_hint, web_app
from plugin.web.background import Housekeeping, ReadingLoop
from plugin.web.data_routes import data_pages
from plugin.web.middleware import WebMetrics
from plugin.web.work.access import MarketSite, PageLimits, PageTokens
from plugin.web.work.calls import PageCalls
from plugin.web.work.page import HitPages, PackCache
from plugin.web.work.routes import work_blueprint
from plugin.wiring import Application
from round_manager.services.context import ServiceContext


class ServeProcess:
    """A running process of the web app; it reads Label Studio if the settings have a token for it."""

    def __init__(self, application: Application, shared: Path, *, sync_every: float) -> None:
        settings, store, clock = application.settings, application.lazy_store, application.clock
        self._application = application
        metrics = WebMetrics()
        self._loop = self._reading(shared, sync_every, metrics)
        self.app = web_app(
            store,
            application.attempt_intake(store),
            settings.signing_secrets(),
            metrics=metrics,
            hint=self._loop.hint if self._loop else ignore_hint,
            pages=(front_page(store), work_pages(application), data_pages(settings, store, clock)),
        )
        access = application.worker_access if settings.has_crowd_keys else None
        self._housekeeping = Housekeeping(self._context, settings.crowd_name, access, shared)
        self._housekeeping.start()
        if self._loop:
            self._loop.start()

    def close(self, timeout: float) -> None:
        """Stop the threads, and close the database."""
        if self._loop:
            self._loop.stop(timeout)
        self._housekeeping.stop(timeout)
        self._application.lazy_store.close()

    def _reading(self, shared: Path, every: float, metrics: WebMetrics) -> ReadingLoop | None:
        connected = self._application.connected_label_studio(self._context)
        return ReadingLoop(connected, shared, every=every, count=metrics.read) if connected else None

    def _context(self) -> ServiceContext:
        return ServiceContext(self._application.lazy_store.open(), self._application.clock)


def work_pages(application: Application, limits: PageLimits | None = None) -> Blueprint:
    """Return the pages of the HITs that link to this web app; nothing is read or asked yet."""
    settings, store, clock = application.settings, application.lazy_store, application.clock
    secrets, rates = settings.signing_secrets(), limits or PageLimits()
    tokens, site = PageTokens(secrets), MarketSite(settings.crowd_sites)
    judge = BackendJudge(settings.ml_backend_url, secrets, auth=settings.backend_auth, now=clock.now)
    links, packs = HitLinks(settings.hit_pages, secrets), PackCache(settings.templates_path)
    profile = application.crowd_profile
    pages = HitPages(store, links, tokens, site, profile.page, packs, clock, rates)
    calls = PageCalls(store, judge, clock, rates, profile.worker_return)
    return work_blueprint(pages, calls, tokens, site, rates)
