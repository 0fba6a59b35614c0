"""Pauses between the manager's passes, cut short by the marketplace's events and by whoever ends it."""

import logging
import threading
import time

from mturk.errors import CrowdError
from mturk.notifications import EventQueue

# No longer at a time: whoever is told to stop must not have to wait for an event.
SECONDS_TO_LISTEN = 5
_log = logging.getLogger(__name__)


class Pauses:
    """Waits so many seconds, or until an event tells that there is something to read."""

    def __init__(self, stop: threading.Event, every: float, events: EventQueue | None = None) -> None:
        self._stop = stop
        self._every = every
        self._events = events

    def wait(self) -> None:
        """One pause."""
        end = time.monotonic() + self._every
        while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._events is None or left < 1:
                self._stop.wait(left)
            elif self._heard(self._events, left):
                return

    def _heard(self, events: EventQueue, left: float) -> bool:
        try:
            hints = events.take(min(SECONDS_TO_LISTEN, int(left)))
            # A hint that is lost with us is none that is needed: every pass reads all that is unfinished.
            events.done(hints)
        except CrowdError as error:
            _log.warning("events are not heard", extra={"data": {"error": str(error)}})
            self._stop.wait(left)
            return False
        return bool(hints.hit_ids)
