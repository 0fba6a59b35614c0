"""The simulated crowd: all its workers, a few of them working at a time."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from common.text import count
from plugin.simulation.browser import Browser, SimulationPageError, SimulationStopped
from plugin.simulation.record import SimulationRecord
from plugin.simulation.worker import SimulatedProfile, SimulatedWorker, VisitResult
from templates import TaskSpec

PARALLEL_WORKERS = 3
POLL_SECONDS = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tally:
    """What the crowd has done since the start."""

    written: int = 0
    fooled: int = 0
    checked: int = 0
    quizzes: int = 0
    attempts: int = 0

    def __str__(self) -> str:
        quizzes, pages = count(self.quizzes, "quiz", "quizzes"), count(self.checked, "page")
        return f"{quizzes}, {self.written:,} written ({self.fooled:,} fooled), {pages} checked"


class SimulatedCrowd:
    """Works until `stop` is set."""

    def __init__(
        self,
        profiles: Sequence[SimulatedProfile],
        spec: TaskSpec,
        market_url: str,
        record: SimulationRecord,
        stop: threading.Event,
    ) -> None:
        self._browsers = [Browser(stop) for _ in profiles]
        self._workers = [
            SimulatedWorker(profile, spec, browser, market_url, record)
            for profile, browser in zip(profiles, self._browsers, strict=True)
        ]
        self._stop = stop
        self._pool = ThreadPoolExecutor(PARALLEL_WORKERS, "simulated-crowd")
        self._tally = Tally()
        self._lock = threading.Lock()

    @property
    def tally(self) -> Tally:
        """What was done so far."""
        return self._tally

    def sign_in(self, invite: Callable[[str], str]) -> None:
        """Sign in every worker; `invite` returns the link for a name."""
        for worker in self._workers:
            worker.sign_in(invite(worker.profile.name))

    def work(self) -> None:
        """Let every worker look for work and do it, until `stop` is set."""
        while not self._stop.is_set():
            if not self.once():
                self._stop.wait(POLL_SECONDS)

    def once(self) -> bool:
        """Let every worker do one HIT, if there is one for them; return whether any did."""
        return any(list(self._pool.map(self._visit, self._workers)))

    def close(self) -> None:
        """Stop the threads and close the connections."""
        self._pool.shutdown()
        for browser in self._browsers:
            browser.close()

    def _visit(self, worker: SimulatedWorker) -> bool:
        """Return whether the worker did something; a failure is left to the next visit."""
        try:
            done = worker.work()
        except SimulationStopped:
            return False
        except SimulationPageError as error:
            data = {"worker": worker.profile.name, "error": str(error)}
            _log.warning("a simulated worker retries later", extra={"data": data})
            return False
        self._count(done)
        return bool(done.kind)

    def _count(self, done: VisitResult) -> None:
        with self._lock:
            now = self._tally
            self._tally = replace(
                now,
                written=now.written + (done.kind == "create"),
                fooled=now.fooled + done.fooled,
                checked=now.checked + (done.kind == "validate"),
                quizzes=now.quizzes + (done.kind == "quiz"),
                attempts=now.attempts + done.attempts,
            )
