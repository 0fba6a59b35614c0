"""A lock that serves its waiters in the order in which they came."""

import threading
from collections import deque


class FairLock:
    """A lock for threads, first come, first served.

    A plain lock goes to whichever thread asks at the right moment, so one of many can wait without limit. This one is
    handed to the thread that has waited longest.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._held = False

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for the lock, at most `timeout` seconds; return whether this thread holds it now."""
        with self._mutex:
            if not self._held:
                self._held = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            if turn.acquire(timeout=-1 if timeout is None else timeout):
                return True
        except BaseException:
            if not self._leave(turn):
                self.release()
            raise
        return not self._leave(turn)

    def release(self) -> None:
        """Hand the lock to the thread that has waited longest, if there is one."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False

    def _leave(self, turn: threading.Lock) -> bool:
        """Stop waiting; return False if the lock was handed over at the last moment."""
        with self._mutex:
            if turn not in self._waiting:
                return False
            self._waiting.remove(turn)
            return True
