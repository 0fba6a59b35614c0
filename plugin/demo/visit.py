"""A visit: the demo while a person tries it, with simulated colleagues at work and news, until it is stopped."""

import threading
import time
from contextlib import nullcontext

from common.errors import CodedError
from plugin.demo.colleagues import Colleagues, Place, meaning_in
from plugin.demo.demo import TASK, Demo
from plugin.demo.news import News, Pointers, Report
from plugin.demo.progress import RoundState, examples_of, round_state
from plugin.demo.servers import Watch
from plugin.demo.simulation import open_record
from plugin.demo.welcome import Ready, outfox_command
from round_manager.services.context import ServiceContext

POLL_SECONDS = 0.5
SECONDS_BETWEEN_LOOKS = 1.0


class Visit:
    """Runs a prepared demo for a visitor; a round with colleagues takes about `minutes`, None for no colleagues."""

    def __init__(self, demo: Demo, ready: Ready, minutes: float | None, report: Report) -> None:
        self._demo = demo
        self._minutes = minutes
        self._report = report
        pointers = Pointers(
            earnings=f"{ready.marketplace}/earnings",
            label_studio=ready.url,
            outfox=outfox_command(ready),
            task=TASK,
            has_colleagues=minutes is not None,
        )
        self._news = News(report, pointers)

    def begin(self) -> None:
        """Take note of what is known already: from now on, everything that happens is reported."""
        with self._demo.app.services() as services:
            self._look(services)

    def run(self, watch: Watch, stop: threading.Event) -> None:
        """Keep the servers running, let the colleagues work and report what happens, until `stop` is set."""
        with self._demo.app.services() as services, self._colleagues(services):
            looked_at = 0.0
            while not stop.wait(POLL_SECONDS):
                watch.check()
                if time.monotonic() - looked_at >= SECONDS_BETWEEN_LOOKS:
                    self._look(services)
                    looked_at = time.monotonic()
            self._report("stopping …")

    def _look(self, services: ServiceContext) -> None:
        try:
            self._news.update(round_state(services, TASK), lambda number: examples_of(services, TASK, number))
        except CodedError as error:
            # If the database is busy, the next look finds more.
            if not error.retry:
                raise

    def _colleagues(self, services: ServiceContext) -> "Colleagues | nullcontext[None]":
        if self._minutes is None:
            return nullcontext()
        demo = self._demo

        def look() -> RoundState:
            return round_state(services, TASK)

        record = open_record(demo, lambda text: meaning_in(look().examples, text))
        place = Place(demo.settings.crowd_url, demo.invite_simulated)
        return Colleagues(demo.pack.spec, place, record, look, self._minutes)
