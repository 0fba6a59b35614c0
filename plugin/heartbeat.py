"""A training's heartbeat: tells the database how far it is, and hears whether it is still wanted."""

import logging
import threading
from dataclasses import replace
from types import TracebackType
from typing import Self

from common.clock import Clock
from ml_backend.errors import TrainingCancelled
from round_manager.database.store import Store
from round_manager.errors import RoundManagerError
from round_manager.learning.jobs import HowFar, Wish, beat, begin_rotation
from round_manager.progress import Progress

SECONDS_BETWEEN_BEATS = 2.0

log = logging.getLogger(__name__)


class Heartbeat:
    """A Progress that passes on what it is told, and beats in a thread of its own until the end of the block."""

    def __init__(
        self, store: Store, job_id: int, clock: Clock, watcher: Progress, every: float = SECONDS_BETWEEN_BEATS
    ) -> None:
        self._store = store
        self._job_id = job_id
        self._clock = clock
        self._watcher = watcher
        self._every = every
        self._how_far = HowFar()
        self._wish = Wish.GO_ON
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="training-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def start(self, total_steps: int, what: str) -> None:
        """A stage of so many steps begins."""
        self._how_far = HowFar(what, 0, total_steps)
        self._watcher.start(total_steps, what)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """So many more steps are done."""
        self._how_far = replace(self._how_far, steps=self._how_far.steps + steps, note=note)
        self._watcher.advance(steps, note)

    def finish(self) -> None:
        """The stage is over."""
        self._watcher.finish()

    def unwanted(self) -> bool:
        """Whether somebody cancelled it, or took it for dead, as far as was heard."""
        return self._wish is not Wish.GO_ON

    def check(self) -> None:
        """Ask at once; TrainingCancelled where it is not wanted any more."""
        self._beat()
        self._go_on()

    def seal(self) -> None:
        """Ask a last time: from now on nobody can cancel it; TrainingCancelled where somebody did."""
        with self._store.write() as session:
            self._wish = begin_rotation(session, self._job_id, now=self._clock.now())
        self._go_on()

    def _go_on(self) -> None:
        if self.unwanted():
            raise TrainingCancelled("training was cancelled; no model was rotated in")

    def _run(self) -> None:
        while not self._over.wait(self._every):
            try:
                self._beat()
            except RoundManagerError as error:
                # Whether it is still ours is asked again before anything changes; until then, nobody is harmed.
                log.warning("how far the training is could not be told: %s", error)

    def _beat(self) -> None:
        with self._store.write() as session:
            self._wish = beat(session, self._job_id, self._how_far, now=self._clock.now())
