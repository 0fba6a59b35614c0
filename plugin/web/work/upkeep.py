"""What has to be done for workers while nobody calls: sessions end, and who passed a quiz may work.

All processes of one web app share a folder; whoever holds the lock in it does this, and when that process dies another
one does. Web apps on other machines do it too, which does no harm: what one ends or grants, the others find done.
"""

import fcntl
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from common.clock import Clock
from plugin.lazy_store import LazyStore
from plugin.settings import Settings
from round_manager.crowd.qualifications import WorkerAccess, grant_passed_quizzes
from round_manager.work.session_end import sweep

SECONDS = 10.0
LOCK = "workers.lock"
_log = logging.getLogger(__name__)


class Upkeep:
    """Looks after sessions each `every` seconds, in a thread of its own; without `recruit` nobody is qualified."""

    def __init__(
        self,
        lazy_store: LazyStore,
        marketplace: str,
        recruit: Callable[[], WorkerAccess] | None,
        folder: Path,
        clock: Clock,
        every: float = SECONDS,
    ) -> None:
        self._lazy_store = lazy_store
        self._marketplace = marketplace
        self._recruit = recruit
        self._folder = folder
        self._clock = clock
        self._every = every
        # What went wrong the last time; empty where nothing did.
        self.failing = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workers-upkeep", daemon=True)

    def start(self) -> None:
        """From now on it works, or waits for its turn to."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Begins nothing more; what it is at may take so many seconds."""
        self._stopping.set()
        self._thread.join(timeout)

    def once(self) -> int:
        """Ends what is over and qualifies who passed; how many were qualified. An error leaves the rest for later."""
        store = self._lazy_store.open()
        with store.write() as session:
            sweep(session, now=self._clock.now())
        return grant_passed_quizzes(store, self._marketplace, self._recruit) if self._recruit else 0

    def _run(self) -> None:
        with (self._folder / LOCK).open("w") as lock:
            while not self._stopping.wait(self._every):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
                self._noted()

    def _noted(self) -> None:
        try:
            self.once()
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the next time may be better
            # What another library's error says can hold what people typed; ours, which know about retrying, never do.
            text = str(error) if hasattr(error, "retry") else type(error).__name__
            if text != self.failing:
                _log.warning("workers have to wait for their qualification", extra={"data": {"error": text}})
            self.failing = text
        else:
            self.failing = ""


def recruiter(settings: Settings, lazy_store: LazyStore, clock: Clock) -> Callable[[], WorkerAccess] | None:
    """How to reach the marketplace that the settings name; None where they have no keys for it."""
    if not settings.has_crowd_keys:
        return None

    def recruit() -> WorkerAccess:
        # Its client takes a second to import, and of several processes only one needs it.
        from plugin.crowd import crowd_of

        return WorkerAccess(lazy_store.open(), crowd_of(settings), clock)

    return recruit
