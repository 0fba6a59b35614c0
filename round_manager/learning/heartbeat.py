"""The heartbeat of a training: it records the progress in the database, and learns whether to continue."""

import logging
import threading
from dataclasses import replace
from types import TracebackType
from typing import Self

from common.clock import Clock
from common.progress import Progress
from ml_backend.errors import TrainingCancelled
from round_manager.database.store import Store
from round_manager.errors import RoundManagerError
from round_manager.learning.training_jobs import JobProgress, JobSignal, record_heartbeat, start_rotation

HEARTBEAT_SECONDS = 2.0

log = logging.getLogger(__name__)


class TrainingHeartbeat:
    """A Progress that forwards to another one, and sends heartbeats from a thread until the end of the block."""

    def __init__(
        self, store: Store, job_id: int, clock: Clock, progress: Progress, interval: float = HEARTBEAT_SECONDS
    ) -> None:
        self._store = store
        self._job_id = job_id
        self._clock = clock
        self._progress = progress
        self._interval = interval
        self._recorded = JobProgress()
        self._signal = JobSignal.CONTINUE
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
        """Begin a stage of that many steps."""
        self._recorded = JobProgress(what, 0, total_steps)
        self._progress.start(total_steps, what)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Report that more steps are done."""
        self._recorded = replace(self._recorded, steps=self._recorded.steps + steps, note=note)
        self._progress.advance(steps, note)

    def finish(self) -> None:
        """End the stage."""
        self._progress.finish()

    def is_cancelled(self) -> bool:
        """Return whether the last heartbeat learned that the job should not continue."""
        return self._signal is not JobSignal.CONTINUE

    def check(self) -> None:
        """Send a heartbeat now; raise TrainingCancelled if the job should not continue."""
        self._send()
        self._raise_if_cancelled()

    def seal(self) -> None:
        """Ask for the last time: from now on the job cannot be cancelled. Raise TrainingCancelled where it was."""
        with self._store.write() as session:
            self._signal = start_rotation(session, self._job_id, now=self._clock.now())
        self._raise_if_cancelled()

    def _raise_if_cancelled(self) -> None:
        if self.is_cancelled():
            raise TrainingCancelled("training was cancelled; no model was rotated in")

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            try:
                self._send()
            except RoundManagerError as error:
                # Whether to continue is asked again before anything changes, so a missed heartbeat is harmless.
                log.warning("could not record the progress of the training: %s", error)

    def _send(self) -> None:
        with self._store.write() as session:
            self._signal = record_heartbeat(session, self._job_id, self._recorded, now=self._clock.now())
