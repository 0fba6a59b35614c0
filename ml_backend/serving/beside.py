"""A process that runs beside the workers: begun before them, begun again when it dies, ended after them."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable

# What runs there; it is given a way to wait that answers True when it is time to end.
Run = Callable[[Callable[[float], bool]], None]

NICE = 10
_log = logging.getLogger(__name__)


class Beside:
    """One process; it ends by itself when its parent is no more."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parent = 0
        self._pid: int | None = None

    def keep(self) -> None:
        """It runs after this, whether or not it did before."""
        if self._pid is not None and not _is_gone(self._pid):
            return
        if self._pid is not None:
            _log.error("a process beside the workers ended; another one begins", extra={"data": {"process": self._pid}})
        self._parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._be()

    def stop(self, timeout: float) -> None:
        """Lets it finish for so many seconds; then it is killed."""
        pid, self._pid = self._pid, None
        if pid is None:
            return
        for how, seconds in ((signal.SIGTERM, timeout), (signal.SIGKILL, 1.0)):
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                return
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                if _is_gone(pid):
                    return
                time.sleep(0.01)

    def _be(self) -> None:
        """The child's whole life; it never comes back to whoever forked it."""
        code = 1
        try:
            # The listening socket above all: while anybody holds it, callers wait there instead of being refused.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            # Whoever waits for an answer comes first.
            os.nice(NICE)
            ending = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: ending.set())
            # Ctrl-C reaches the whole process group; it is for the master to say what happens then.
            for name in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
                signal.signal(name, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._run(lambda seconds: ending.wait(seconds) or os.getppid() != self._parent)
            code = 0
        except Exception:  # noqa: BLE001 - the edge of a process: another one begins
            _log.exception("a process beside the workers failed")
        finally:
            os._exit(code)


def _is_gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        # Somebody else has waited for it already.
        return True
