"""Following: work is collected soon after the marketplace tells of it, and now and then without being told.

Events are hints. They may come twice, late or never: what they name is read at the marketplace, and everything that is
unfinished is read every so often all the same.
"""

import logging
import time
from collections.abc import Callable

from crowd.errors import CrowdError
from crowd.port import EventQueue
from round_manager.crowd.collecting import Collected, Collecting

SECONDS_AFTER_TROUBLE = 5.0
# No longer at a time: whoever is told to stop must not have to wait for an event.
SECONDS_TO_LISTEN = 5
_log = logging.getLogger(__name__)


class Following:
    """Collects until it is told to stop; `pause` waits, and answers whether to stop."""

    def __init__(
        self,
        collecting: Collecting,
        events: EventQueue | None,
        *,
        every: float,
        pause: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collecting = collecting
        self._events = events
        self._every = every
        self._pause = pause
        self._clock = clock

    def run(self, told: Callable[[Collected], None]) -> None:
        """`told` hears of each reading that brought something."""
        due = self._clock()
        while not self._pause(0):
            try:
                if self._clock() >= due:
                    due = self._clock() + self._every
                    self._tell(self._collecting.run(), told)
                elif self._events is None:
                    self._pause(due - self._clock())
                else:
                    self._hear(self._events, due, told)
            except CrowdError as error:
                # The error's own text is ours and holds nothing that people typed.
                _log.warning("the crowd is not read", extra={"data": {"error": str(error)}})
                self._pause(SECONDS_AFTER_TROUBLE)

    def _hear(self, events: EventQueue, due: float, told: Callable[[Collected], None]) -> None:
        hints = events.take(max(0, min(SECONDS_TO_LISTEN, int(due - self._clock()))))
        if hints.hit_ids:
            self._tell(self._collecting.hinted(hints.hit_ids), told)
        # Only now: had we ended before, the events would come again.
        events.done(hints)

    def _tell(self, found: Collected, told: Callable[[Collected], None]) -> None:
        if found.works or found.finished:
            told(found)
