"""The courier: takes tries from the outbox to whoever stores them, in a process of its own.

Storing takes longer than judging. In the process that judges it would take turns with the verdicts.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ml_backend.errors import BackendError
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.errors import Undeliverable
from ml_backend.serving.outbox import Notes, is_free, read_tries, waiting_files, write_notes

REFUSED_FILE = "refused.jsonl"
BATCH = 500
SECONDS_BETWEEN_LOOKS = 0.2
_log = logging.getLogger(__name__)


def _tell_nobody(_what: str, _count: int) -> None:
    """Where nobody counts."""


class Courier:
    """Delivers what lies in an outbox, the oldest first, and removes it then.

    `deliver` raises Undeliverable for what nobody will ever take; after any other error the tries stay where they are,
    and it is called again less and less often. Each try is delivered at least once: one that comes twice has the same
    verdict id. `told` hears how many were delivered, refused or dropped, for somebody who counts.
    """

    def __init__(
        self,
        folder: Path,
        deliver: Callable[[Sequence[AttemptRecord]], None],
        *,
        told: Callable[[str, int], None] = _tell_nobody,
        batch: int = BATCH,
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
    ) -> None:
        self._folder = folder
        self._deliver = deliver
        self._told = told
        self._batch = batch
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._notes = Notes()
        self._wait = first_wait
        self._retry_at = 0.0

    def run(self, wait: Callable[[float], bool]) -> None:
        """Delivers until `wait` answers that it is time to end, and then once more."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._notes.process = os.getpid()
        write_notes(self._folder, self._notes)
        while not wait(SECONDS_BETWEEN_LOOKS):
            if time.monotonic() >= self._retry_at:
                self.deliver_all()
        self.deliver_all()

    def deliver_all(self) -> bool:
        """Whether everything that was there is delivered."""
        for path in waiting_files(self._folder):
            if not is_free(path):
                continue
            try:
                tries, torn = read_tries(path)
            except OSError:
                continue  # It was sealed just now, and has another name.
            if not self._all_delivered(tries):
                return False
            path.unlink(missing_ok=True)
            if torn:
                self._count("dropped", torn)
        return True

    def _all_delivered(self, tries: list[AttemptRecord]) -> bool:
        batches = (tries[first : first + self._batch] for first in range(0, len(tries), self._batch))
        return all(self._delivered(batch) for batch in batches)

    def _delivered(self, tries: Sequence[AttemptRecord]) -> bool:
        try:
            self._deliver(tries)
        except Undeliverable as error:
            return self._one_by_one(tries) if len(tries) > 1 else self._put_aside(tries[0], error)
        except Exception as error:  # noqa: BLE001 - the edge of the process: whatever it is, the tries are kept
            self._failed(error)
            return False
        if self._notes.error:
            _log.info("tries are taken again")
        self._notes.error, self._retry_at = None, 0.0
        self._count("delivered", len(tries))
        return True

    def _one_by_one(self, tries: Sequence[AttemptRecord]) -> bool:
        """One bad try must not keep the others from arriving."""
        return all(self._delivered([one]) for one in tries)

    def _put_aside(self, tried: AttemptRecord, error: Undeliverable) -> bool:
        self._count("refused", 1)
        _log.error("a try was refused for good", extra={"data": {"verdict": tried.verdict.id, "error": str(error)}})
        try:
            with (self._folder / REFUSED_FILE).open("a", encoding="ascii") as file:
                file.write(json.dumps(tried.to_json()) + "\n")
        except OSError as problem:
            _log.error("it could not be put aside either", extra={"data": {"error": problem.strerror}})
        return True

    def _failed(self, error: Exception) -> None:
        # What another library's error says can hold what people typed; ours never do.
        text = str(error) if isinstance(error, BackendError | OSError) else type(error).__name__
        if self._notes.error is None:
            self._wait = self._first_wait
            _log.warning("nobody takes the tries; they are kept for later", extra={"data": {"error": text}})
        else:
            self._wait = min(self._wait * 2, self._longest_wait)
        self._notes.error = text
        self._retry_at = time.monotonic() + self._wait
        write_notes(self._folder, self._notes)

    def _count(self, what: str, count: int) -> None:
        if what in ("delivered", "refused"):
            setattr(self._notes, what, getattr(self._notes, what) + count)
            write_notes(self._folder, self._notes)
        self._told(what, count)
