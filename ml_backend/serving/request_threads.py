"""Threads that answer requests: a few at a time, not counting those that wait for another server."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

# Threads are started only when they are needed.
MAX_WAITING = 256
Job = Callable[[], None]
_current = threading.local()


class RequestThreads:
    """Runs at most `at_once` jobs at a time, first come, first served; a job that waits gives its place to the next."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._threads = ThreadPoolExecutor(at_once + MAX_WAITING, thread_name_prefix="request")
        self._lock = threading.Lock()
        self._running = 0
        self._paused = 0
        self._is_closed = False
        self._queue: deque[Job] = deque()
        self._resuming: deque[threading.Event] = deque()

    def submit(self, job: Job) -> None:
        """Run a job on one of the threads; it must not raise."""
        with self._lock:
            if self._is_closed:
                return
            if self._running >= self._at_once:
                self._queue.append(job)
                return
            self._running += 1
        self._threads.submit(self._run, job)

    def close(self) -> None:
        """Start no more jobs; let those that have begun end."""
        with self._lock:
            self._is_closed = True
            self._queue.clear()
            while self._resuming:
                self._resuming.popleft().set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let the next job start while the calling job waits; afterwards it goes on before jobs that have not begun."""
        with self._lock:
            # Every paused job keeps its thread. With more of them, jobs that hold a place could find no thread, and
            # the paused ones would wait for these places.
            may_pause = self._paused < MAX_WAITING
            self._paused += may_pause
        if not may_pause:
            yield
            return
        following = self._next()
        if following:
            self._threads.submit(self._run, following)
        try:
            yield
        finally:
            self._resume()

    def _resume(self) -> None:
        with self._lock:
            if self._running < self._at_once or self._is_closed:
                self._running += 1
                self._paused -= 1
                return
            turn = threading.Event()
            self._resuming.append(turn)
        turn.wait()

    def _run(self, job: Job) -> None:
        _current.threads = self
        following: Job | None = job
        while following:
            following()
            following = self._next()

    def _next(self) -> Job | None:
        """Give up a place: to a job that has waited, to the one that is returned, or to none."""
        with self._lock:
            if self._resuming:
                self._resuming.popleft().set()
                self._paused -= 1
            elif self._queue:
                return self._queue.popleft()
            else:
                self._running -= 1
            return None


@contextmanager
def waiting_for_server() -> Iterator[None]:
    """Mark a block that mostly waits for another server, so that other requests are answered in the meantime."""
    threads: RequestThreads | None = getattr(_current, "threads", None)
    if threads is None:
        yield
        return
    # A block within this one has nothing to give up.
    _current.threads = None
    try:
        with threads.pause():
            yield
    finally:
        _current.threads = threads
