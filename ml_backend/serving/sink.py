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
    """How a sink does: how many tries wait, what became of the others, and what is wrong now."""

    waiting: int = 0
    delivered: int = 0
    refused: int = 0
    dropped: int = 0
    error: str | None = None


class Sink(Protocol):
    """Takes verdicts to be stored."""

    def put(self, tried: Tried) -> None:
        """Takes one try; never waits for whoever stores it, never raises."""
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
    """Writes every try to a file before its verdict is answered, and delivers from there, in batches, in a thread.

    A process that is killed loses none: the next one finds the file. Without a folder, or where the disk refuses, tries
    wait in memory. `deliver` raises Undeliverable for what nobody will ever take; after any other error it is called
    again, less and less often. Each try is delivered at least once: one that comes twice has the same verdict id.
    `told` hears how many were delivered, refused or dropped, for somebody who counts.
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
        self._lock = threading.Lock()
        self._files: list[SpillFile] = []
        self._own: SpillFile | None = None
        self._memory: deque[Tried] = deque()
        self._pending = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._give_up = threading.Event()
        self._counts = dict.fromkeys(("delivered", "refused", "dropped"), 0)
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
        with self._lock:
            kept = not self._closing.is_set() and (self._written(tried) or self._remembered(tried))
            self._pending += kept
        if not kept:
            self._count("dropped", 1)
        elif not self._wake.is_set():
            self._wake.set()

    def state(self) -> SinkState:
        return SinkState(self._pending, **self._counts, error=self._error)

    def close(self, timeout: float = 5.0) -> None:
        """Takes nothing more, delivers what it has, and leaves on disk what nobody takes in time."""
        with self._lock:
            self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)
            self._give_up.set()
            self._thread.join(1.0)
        # A delivery that hangs is left hanging; whether it arrives or not, its tries are still in the file.
        for file in self._files:
            file.close()
        if self._memory:
            self._count("dropped", len(self._memory))

    def _run(self) -> None:
        self._adopt()
        while not self._closing.is_set():
            self._wake.wait(max(0.0, self._retry_at - time.monotonic()) if self._error else None)
            self._closing.wait(self._linger)
            self._wake.clear()
            self._work()
        self._retry_at = 0.0
        self._work()

    def _work(self) -> None:
        """Delivers what waits on disk, then what waits in memory, up to the first failure."""
        if time.monotonic() < self._retry_at:
            return
        if self._error:
            self._adopt()  # A process that died with its tries on disk was perhaps on this machine.
        if self._emptied() and self._memory:
            self._empty_memory()

    def _emptied(self) -> bool:
        for file in list(self._files):
            while not file.empty and not self._give_up.is_set():
                tries, torn = file.peek(self._batch)
                if tries and not self._delivered(tries):
                    return False
                file.advance()
                self._done(len(tries) + torn)
                if torn:
                    self._count("dropped", torn)
        return True

    def _empty_memory(self) -> None:
        while self._memory and not self._give_up.is_set():
            tries = [self._memory.popleft() for _ in range(min(self._batch, len(self._memory)))]
            if not self._delivered(tries):
                self._memory.extendleft(reversed(tries))
                return
            self._done(len(tries))

    def _delivered(self, tries: Sequence[Tried]) -> bool:
        try:
            self._deliver(tries)
        except Undeliverable as error:
            return self._one_by_one(tries) if len(tries) > 1 else self._put_aside(tries[0], error)
        except Exception as error:  # noqa: BLE001 - the edge of the sink's thread: whatever it is, the tries are kept
            self._failed(error)
            return False
        if self._error:
            _log.info("tries are taken again")
        self._error, self._retry_at = None, 0.0
        self._count("delivered", len(tries))
        return True

    def _one_by_one(self, tries: Sequence[Tried]) -> bool:
        """One bad try must not keep the others from arriving."""
        return all(self._delivered([one]) for one in tries)

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

    def _written(self, tried: Tried) -> bool:
        if self._folder is None:
            return False
        try:
            if self._own is None:
                self._own = new_file(self._folder, self._most_bytes)
                self._files.append(self._own)
        except OSError:
            return False
        return self._own.append([tried])

    def _remembered(self, tried: Tried) -> bool:
        if len(self._memory) >= self._capacity:
            return False
        self._memory.append(tried)
        return True

    def _adopt(self) -> None:
        if self._folder is not None and self._folder.is_dir():
            found = orphans(self._folder, self._most_bytes)
            with self._lock:
                self._files = [*found, *self._files]
                self._pending += sum(file.lines() for file in found)

    def _done(self, count: int) -> None:
        with self._lock:
            self._pending -= count

    def _count(self, what: str, count: int) -> None:
        self._counts[what] += count
        self._told(what, count)
