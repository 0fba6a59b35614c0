"""Sinks and receivers of attempts that a test can inspect and break."""

import threading
from collections.abc import Sequence

from ml_backend.errors import Undeliverable
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.outbox import SinkState


class ListSink:
    """An AttemptSink that keeps everything in a list."""

    def __init__(self) -> None:
        self.attempts: list[AttemptRecord] = []

    def put(self, attempt: AttemptRecord) -> None:
        self.attempts.append(attempt)

    def state(self) -> SinkState:
        return SinkState(delivered=len(self.attempts))

    def check(self) -> None:
        """Do nothing: a list is never full."""


class Receiver:
    """The receiver of delivered attempts: a test can take it down or make it refuse some."""

    def __init__(self) -> None:
        self.down = False
        self.calls = 0
        self.disliked: set[str] = set()
        self._got: list[AttemptRecord] = []
        self._changed = threading.Condition()

    def __call__(self, attempts: Sequence[AttemptRecord]) -> None:
        with self._changed:
            self.calls += 1
            self._changed.notify_all()
            if self.down:
                raise ConnectionRefusedError("connection refused")
            if self.disliked & {str(one.verdict.id) for one in attempts}:
                raise Undeliverable("refused")
            self._got += attempts
            self._changed.notify_all()

    @property
    def ids(self) -> list[str]:
        """The ids of the attempts, in order of arrival."""
        with self._changed:
            return [str(one.verdict.id) for one in self._got]

    @property
    def got(self) -> list[AttemptRecord]:
        with self._changed:
            return list(self._got)

    def wait_for(self, count: int) -> None:
        """Wait until that many have arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._got) >= count, 20), f"{len(self._got)} came, not {count}"

    def wait_for_calls(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.calls >= count, 20), f"{self.calls} calls, not {count}"
