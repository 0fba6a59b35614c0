"""Threads that answer requests: a few at a time, not counting those that wait for another server."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Threads are started only when they are needed.
MAX_WAITING = 256
Job = Callable[[], None]
_current = threading.local()


class _Thread(threading.Thread):
    """A thread that runs its job, and then the jobs that it is given."""

    def __init__(self, threads: "RequestThreads", job: Job) -> None:
        super().__init__(name="request")
        self._threads = threads
        self._job: Job | None = job
        self._is_given = threading.Lock()
        self._is_given.acquire()

    def give(self, job: Job | None) -> None:
        """Let the thread, which is idle, run a job; or end it."""
        self._job = job
        self._is_given.release()

    def run(self) -> None:
        _current.threads = self._threads
        while (job := self._job) is not None:
            job()
            # An idle thread must not keep the request.
            self._job = job = None
            self._job = self._threads.next_job(self) or self._wait()

    def _wait(self) -> Job | None:
        self._is_given.acquire()
        return self._job


class RequestThreads:
    """Runs at most `at_once` jobs at a time, first come, first served; a job that waits gives its place to the next.

    The thread that became idle last runs the next job: its memory is still in the processor's caches.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._idle: list[_Thread] = []
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
            self._start(job)

    def close(self) -> None:
        """Start no more jobs; let those that have begun end."""
        with self._lock:
            self._is_closed = True
            self._queue.clear()
            while self._resuming:
                self._resuming.popleft().set()
            while self._idle:
                self._idle.pop().give(None)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let the next job start while the calling job waits; afterwards it goes on before jobs that have not begun."""
        with self._lock:
            # Every paused job keeps its thread.
            may_pause = self._paused < MAX_WAITING
            if may_pause:
                self._paused += 1
                following = self._give_up_place()
                if following:
                    self._start(following)
        if not may_pause:
            yield
            return
        try:
            yield
        finally:
            self._resume()

    def next_job(self, thread: _Thread) -> Job | None:
        """Return the job that follows on a thread that has ended one; if there is none, the thread is given one later.

        Called by the thread.
        """
        with self._lock:
            following = self._give_up_place()
            if following is None and self._is_closed:
                thread.give(None)
            elif following is None:
                self._idle.append(thread)
            return following

    def _resume(self) -> None:
        with self._lock:
            if self._running < self._at_once or self._is_closed:
                self._running += 1
                self._paused -= 1
                return
            turn = threading.Event()
            self._resuming.append(turn)
        turn.wait()

    def _start(self, job: Job) -> None:
        """Run a job on a thread; called with the lock."""
        if self._idle:
            self._idle.pop().give(job)
        else:
            _Thread(self, job).start()

    def _give_up_place(self) -> Job | None:
        """Give up a place: to a job that has waited, to the one that is returned, or to none; called with the lock."""
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
