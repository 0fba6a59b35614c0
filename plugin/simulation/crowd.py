"""The simulated crowd as a whole: all its workers, a few of them at work at a time."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from common.text import count
from plugin.simulation.errors import SiteTrouble, Stopped
from plugin.simulation.line import Line
from plugin.simulation.notebook import Notebook
from plugin.simulation.people import Person
from plugin.simulation.worker import Done, SimulatedWorker
from templates import TaskSpec

AT_A_TIME = 3
SECONDS_BETWEEN_LOOKS = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tally:
    """What the crowd has done since it came."""

    written: int = 0
    fooled: int = 0
    checked: int = 0
    quizzes: int = 0
    tries: int = 0

    def __str__(self) -> str:
        quizzes, pages = count(self.quizzes, "quiz", "quizzes"), count(self.checked, "page")
        return f"{quizzes}, {self.written:,} written ({self.fooled:,} fooled), {pages} checked"


class SimulatedCrowd:
    """Works until the event is set."""

    def __init__(
        self, people: Sequence[Person], spec: TaskSpec, market_url: str, notebook: Notebook, stop: threading.Event
    ) -> None:
        self._lines = [Line(stop) for _ in people]
        self._workers = [
            SimulatedWorker(person, spec, line, market_url, notebook)
            for person, line in zip(people, self._lines, strict=True)
        ]
        self._stop = stop
        self._pool = ThreadPoolExecutor(AT_A_TIME, "simulated-crowd")
        self._tally = Tally()
        self._lock = threading.Lock()

    @property
    def tally(self) -> Tally:
        """What was done so far."""
        return self._tally

    def come(self, invite: Callable[[str], str]) -> None:
        """Everybody signs in; `invite` makes the link for a name."""
        for worker in self._workers:
            worker.sign_in(invite(worker.person.name))

    def work(self) -> None:
        """Everybody looks for work and does it, again and again, until the event is set."""
        while not self._stop.is_set():
            if not self.once():
                self._stop.wait(SECONDS_BETWEEN_LOOKS)

    def once(self) -> bool:
        """Everybody comes once, and does one HIT where there is one for them; whether anybody did."""
        return any(list(self._pool.map(self._visit, self._workers)))

    def close(self) -> None:
        """Ends its threads and connections."""
        self._pool.shutdown()
        for line in self._lines:
            line.close()

    def _visit(self, worker: SimulatedWorker) -> bool:
        """Whether the worker did something; what goes wrong is the next visit's to mend."""
        try:
            done = worker.work()
        except Stopped:
            return False
        except SiteTrouble as trouble:
            data = {"worker": worker.person.name, "error": str(trouble)}
            _log.warning("a simulated worker has to come back later", extra={"data": data})
            return False
        self._count(done)
        return bool(done.kind)

    def _count(self, done: Done) -> None:
        with self._lock:
            now = self._tally
            self._tally = replace(
                now,
                written=now.written + (done.kind == "create"),
                fooled=now.fooled + done.fooled,
                checked=now.checked + (done.kind == "validate"),
                quizzes=now.quizzes + (done.kind == "quiz"),
                tries=now.tries + done.tries,
            )
