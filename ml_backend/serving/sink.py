"""Sinks: where verdicts go to be stored, without a verdict ever waiting for it."""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ml_backend.errors import BackendError
from ml_backend.serving.errors import Undeliverable
from ml_backend.serving.spill import SpillFile, new_file, orphans
from ml_backend.serving.tried import Tried

__all__ = ["BufferedSink", "NoSink", "Sink", "SinkState", "Tried", "Undeliverable"]

REFUSED_FILE = "refused.jsonl"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SinkState:
    """How a sink does: what waits in memory and on disk, what became of the rest, and what is wrong now."""

    waiting: int = 0
    on_disk: bool = False
    delivered: int = 0
    spilled: int = 0
    refused: int = 0
    dropped: int = 0
    error: str | None = None


class Sink(Protocol):
    """Takes verdicts to be stored."""

    def put(self, tried: Tried) -> None:
        """Takes one try; never blocks, never raises."""
        ...

    def state(self) -> SinkState:
        """How the sink does."""
        ...


class NoSink:
    """A Sink that keeps nothing, for a backend that runs on its own."""

    def put(self, tried: Tried) -> None:
        """Nothing is kept."""

    def state(self) -> SinkState:
        return SinkState()


def _tell_nobody(_what: str, _count: int) -> None:
    """Where nobody counts."""


class BufferedSink:
    """Delivers tries from a thread of its own, in batches; while nobody takes them they wait on disk.

    `deliver` raises Undeliverable for what nobody will ever take; after any other error the tries are kept and it is
    called again, less and less often. Each try is delivered at least once: one that comes twice has the same verdict
    id. `told` hears how many were delivered, spilled, refused or dropped, for somebody who counts.
    """

    def __init__(
        self,
        deliver: Callable[[Sequence[Tried]], None],
        *,
        folder: Path | None = None,
        told: Callable[[str, int], None] = _tell_nobody,
        capacity: int = 10_000,
        batch: int = 100,
        most_bytes: int = 256_000_000,
        linger: float = 0.05,
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
    ) -> None:
        self._deliver = deliver
        self._folder = folder
        self._told = told
        self._capacity = capacity
        self._batch = batch
        self._most_bytes = most_bytes
        self._linger = linger
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._waiting: deque[Tried] = deque()
        self._flying: Sequence[Tried] = ()
        self._files: list[SpillFile] = []
        self._on_disk = False
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._give_up = threading.Event()
        self._counts = dict.fromkeys(("delivered", "spilled", "refused", "dropped"), 0)
        self._error: str | None = None
        self._wait = first_wait
        self._retry_at = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """From now on tries are delivered, first those that an earlier process left on disk."""
        self._wake.set()
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self._thread.start()

    def put(self, tried: Tried) -> None:
        if self._closing.is_set() or len(self._waiting) >= self._capacity:
            self._count("dropped", 1)
            return
        self._waiting.append(tried)
        if not self._wake.is_set():
            self._wake.set()

    def state(self) -> SinkState:
        return SinkState(len(self._waiting), self._on_disk, **self._counts, error=self._error)

    def close(self, timeout: float = 5.0) -> None:
        """Takes nothing more, delivers what it has, and leaves on disk what nobody takes in time."""
        self._closing.set()
        self._wake.set()
        if self._thread is None:
            return
        self._thread.join(timeout)
        self._give_up.set()
        self._thread.join(1.0)
        if self._thread.is_alive():
            # A delivery hangs and will be left hanging; whether it arrives or not, its tries come again.
            self._leave([*self._flying, *self._taken(len(self._waiting))])

    def _run(self) -> None:
        self._adopt()
        while not self._closing.is_set():
            self._wake.wait(max(0.0, self._retry_at - time.monotonic()) if self._error else None)
            self._closing.wait(self._linger)
            self._wake.clear()
            self._work()
        self._retry_at = 0.0
        self._work()
        for file in self._files:
            file.close()
        self._leave(self._taken(len(self._waiting)))

    def _work(self) -> None:
        """Delivers what waits on disk, then what waits in memory; from the first failure on it goes to disk."""
        healthy = self._replay() if time.monotonic() >= self._retry_at else False
        while self._waiting and not self._give_up.is_set():
            tries = self._taken(self._batch)
            healthy = healthy and self._delivered(tries)
            if not healthy and not self._spilled(tries):
                self._waiting.extendleft(reversed(tries))
                break
        self._on_disk = any(not file.empty for file in self._files)

    def _replay(self) -> bool:
        if self._error:
            self._adopt()  # A process that died with its tries on disk was perhaps on this machine.
        for file in self._files:
            while not file.empty and not self._give_up.is_set():
                tries, torn = file.peek(self._batch)
                if tries and not self._delivered(tries):
                    return False
                file.advance()
                if torn:
                    self._count("dropped", torn)
        return True

    def _delivered(self, tries: Sequence[Tried]) -> bool:
        self._flying = tries
        try:
            self._deliver(tries)
        except Undeliverable as error:
            return self._one_by_one(tries) if len(tries) > 1 else self._put_aside(tries[0], error)
        except Exception as error:  # noqa: BLE001 - the edge of the sink's thread: whatever it is, the tries are kept
            self._failed(error)
            return False
        finally:
            self._flying = ()
        if self._error:
            _log.info("tries are taken again")
        self._error, self._retry_at = None, 0.0
        self._count("delivered", len(tries))
        return True

    def _one_by_one(self, tries: Sequence[Tried]) -> bool:
        """One bad try must not keep the others from arriving."""
        arrived = [self._delivered([one]) for one in tries]
        return all(arrived)

    def _put_aside(self, tried: Tried, error: Undeliverable) -> bool:
        self._count("refused", 1)
        _log.error("a try was refused for good", extra={"data": {"verdict": tried.verdict.id, "error": str(error)}})
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                with (self._folder / REFUSED_FILE).open("a", encoding="ascii") as file:
                    file.write(json.dumps(tried.to_json()) + "\n")
            except OSError as problem:
                _log.error("it could not be put aside either", extra={"data": {"error": problem.strerror}})
        return True

    def _failed(self, error: Exception) -> None:
        # What another library's error says can hold what people typed; ours never do.
        text = str(error) if isinstance(error, BackendError | OSError) else type(error).__name__
        if self._error is None:
            self._wait = self._first_wait
            _log.warning("nobody takes the tries; they are kept for later", extra={"data": {"error": text}})
        else:
            self._wait = min(self._wait * 2, self._longest_wait)
        self._error = text
        self._retry_at = time.monotonic() + self._wait

    def _taken(self, most: int) -> list[Tried]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def _spilled(self, tries: list[Tried]) -> bool:
        if self._folder is None:
            return False
        try:
            if not self._files:
                self._files.append(new_file(self._folder, self._most_bytes))
        except OSError:
            return False
        kept = self._files[-1].append(tries)
        if kept:
            self._count("spilled", len(tries))
        return kept

    def _leave(self, tries: list[Tried]) -> None:
        """At the very end: on disk for the next process, or lost and counted."""
        if not tries:
            return
        try:
            file = new_file(self._folder, self._most_bytes) if self._folder else None
        except OSError:
            file = None
        kept = file is not None and file.append(tries)
        if file is not None:
            file.close()
        self._count("spilled" if kept else "dropped", len(tries))

    def _adopt(self) -> None:
        if self._folder is not None and self._folder.is_dir():
            self._files = [*orphans(self._folder, self._most_bytes), *self._files]

    def _count(self, what: str, count: int) -> None:
        self._counts[what] += count
        self._told(what, count)
