"""One process of `outfox serve`, put together: store, intake, web app, pages, data, reading of Label Studio."""

from pathlib import Path

from common.clock import SystemClock
from plugin.attempts import intake_of
from plugin.lazy_store import LazyStore
from plugin.settings import Settings
from plugin.web.app import ignore_hint, web_app
from plugin.web.data_routes import data_pages
from plugin.web.front import front_page
from plugin.web.metrics import WebMetrics
from plugin.web.reading import ReadingLoop
from plugin.web.work.upkeep import Upkeep, recruiter
from plugin.web.work.wiring import work_pages


class ServeProcess:
    """A running process of the web app; Label Studio is read where the settings have a token for it."""

    def __init__(self, settings: Settings, shared: Path, *, sync_every: float) -> None:
        metrics, clock = WebMetrics(), SystemClock()
        self._lazy_store = LazyStore(settings.database)
        self._loop = self._reading(settings, shared, sync_every, metrics)
        self.app = web_app(
            self._lazy_store,
            intake_of(settings, self._lazy_store),
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

    def _reading(self, settings: Settings, shared: Path, every: float, metrics: WebMetrics) -> ReadingLoop | None:
        if not settings.label_studio_token:
            return None
        from plugin.web.label_studio import StudioReader

        return ReadingLoop(StudioReader(settings, self._lazy_store), shared, every=every, told=metrics.read)
