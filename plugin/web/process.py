"""One process of `outfox serve`, put together: store, intake, web app, pages, data, reading of Label Studio."""

from pathlib import Path

from plugin.lazy_store import LazyStore
from plugin.web.app import ignore_hint, web_app
from plugin.web.data_routes import data_pages
from plugin.web.front import front_page
from plugin.web.metrics import WebMetrics
from plugin.web.reading import ReadingLoop
from plugin.web.work.upkeep import Upkeep, recruiter
from plugin.web.work.wiring import work_pages
from plugin.wiring import Application
from round_manager.services.context import ServiceContext


class ServeProcess:
    """A running process of the web app; Label Studio is read if the settings have a token for it."""

    def __init__(self, application: Application, shared: Path, *, sync_every: float) -> None:
        settings, clock, metrics = application.settings, application.clock, WebMetrics()
        self._lazy_store = LazyStore(settings.database)
        self._loop = self._reading(application, shared, sync_every, metrics)
        self.app = web_app(
            self._lazy_store,
            application.attempt_intake(self._lazy_store),
            settings.signing_secrets(),
            metrics=metrics,
            hint=self._loop.hint if self._loop else ignore_hint,
            pages=(
                front_page(self._lazy_store),
                work_pages(settings, self._lazy_store, clock),
                data_pages(settings, self._lazy_store, clock),
            ),
        )
        recruit = recruiter(settings, self._lazy_store, clock)
        self._upkeep = Upkeep(self._lazy_store, settings.crowd_name, recruit, shared, clock)
        self._upkeep.start()
        if self._loop:
            self._loop.start()

    def close(self, timeout: float) -> None:
        if self._loop:
            self._loop.stop(timeout)
        self._upkeep.stop(timeout)
        self._lazy_store.close()

    def _reading(self, application: Application, shared: Path, every: float, metrics: WebMetrics) -> ReadingLoop | None:
        connected = application.connected_label_studio(
            lambda: ServiceContext(self._lazy_store.open(), application.clock)
        )
        return ReadingLoop(connected, shared, every=every, told=metrics.read) if connected else None
