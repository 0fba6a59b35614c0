"""The attempt forwarder: delivers attempts from the outbox to the store, in a separate process.

Storing an attempt takes longer than judging it; in the process that judges, it would delay verdicts.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ml_backend.errors import BackendError, Undeliverable
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.outbox import ForwarderState, count_nothing, is_free, read_attempts, waiting_files, write_state

REFUSED_FILE = "refused.jsonl"
BATCH = 500
POLL_SECONDS = 0.2
_log = logging.getLogger(__name__)


class AttemptForwarder:
    """Delivers the attempts in an outbox, oldest first, and removes them afterwards.

    `deliver` raises Undeliverable for attempts that will never be accepted. After any other error, the attempts stay
    in the outbox and delivery is retried with backoff. Each attempt is delivered at least once; a repeated one has the
    same verdict id. `on_count` receives how many attempts were delivered, refused or dropped.
    """

    def __init__(
        self,
        folder: Path,
        deliver: Callable[[Sequence[AttemptRecord]], None],
        *,
        on_count: Callable[[str, int], None] = count_nothing,
        batch: int = BATCH,
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
    ) -> None:
        self._folder = folder
        self._deliver = deliver
        self._on_count = on_count
        self._batch = batch
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._state = ForwarderState()
        self._wait = first_wait
        self._retry_at = 0.0

    def run(self, wait: Callable[[float], bool]) -> None:
        """Deliver until `wait` returns True, then a last time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._state.process = os.getpid()
        write_state(self._folder, self._state)
        while not wait(POLL_SECONDS):
            if time.monotonic() >= self._retry_at:
                self.deliver_all()
        self.deliver_all()

    def deliver_all(self) -> bool:
        """Deliver what is in the outbox; return whether everything was delivered."""
        for path in waiting_files(self._folder):
            if not is_free(path):
                continue
            try:
                attempts, torn = read_attempts(path)
            except OSError:
                continue  # It was sealed in the meantime and has another name.
            if not self._deliver_batches(attempts):
                return False
            path.unlink(missing_ok=True)
            if torn:
                self._count("dropped", torn)
        return True

    def _deliver_batches(self, attempts: list[AttemptRecord]) -> bool:
        batches = (attempts[first : first + self._batch] for first in range(0, len(attempts), self._batch))
        return all(self._deliver_batch(batch) for batch in batches)

    def _deliver_batch(self, attempts: Sequence[AttemptRecord]) -> bool:
        try:
            self._deliver(attempts)
        except Undeliverable as error:
            return self._deliver_each(attempts) if len(attempts) > 1 else self._set_aside(attempts[0], error)
        except Exception as error:  # noqa: BLE001 - the process's edge: whatever it is, the attempts are kept
            self._back_off(error)
            return False
        if self._state.error:
            _log.info("attempts are delivered again")
        self._state.error, self._retry_at = None, 0.0
        self._count("delivered", len(attempts))
        return True

    def _deliver_each(self, attempts: Sequence[AttemptRecord]) -> bool:
        """Deliver one by one, so that one bad attempt does not hold up the others."""
        return all(self._deliver_batch([one]) for one in attempts)

    def _set_aside(self, attempt: AttemptRecord, error: Undeliverable) -> bool:
        self._count("refused", 1)
        _log.error("an attempt was refused", extra={"data": {"verdict": attempt.verdict.id, "error": str(error)}})
        try:
            with (self._folder / REFUSED_FILE).open("a", encoding="ascii") as file:
                file.write(json.dumps(attempt.to_json()) + "\n")
        except OSError as problem:
            _log.error("could not set aside a refused attempt", extra={"data": {"error": problem.strerror}})
        return True

    def _back_off(self, error: Exception) -> None:
        # Another library's message can contain what people typed; ours never do.
        text = str(error) if isinstance(error, BackendError | OSError) else type(error).__name__
        if self._state.error is None:
            self._wait = self._first_wait
            _log.warning("could not deliver attempts; retrying", extra={"data": {"error": text}})
        else:
            self._wait = min(self._wait * 2, self._longest_wait)
        self._state.error = text
        self._retry_at = time.monotonic() + self._wait
        write_state(self._folder, self._state)

    def _count(self, what: str, count: int) -> None:
        if what in ("delivered", "refused"):
            setattr(self._state, what, getattr(self._state, what) + count)
            write_state(self._folder, self._state)
        self._on_count(what, count)
