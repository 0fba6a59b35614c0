"""A sidecar process: started before the workers, restarted when it dies, stopped after them."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable

# What the sidecar runs; its argument waits that many seconds and returns True when it is time to end.
Run = Callable[[Callable[[float], bool]], None]

NICE = 10
_log = logging.getLogger(__name__)


class Sidecar:
    """One process, which ends when its parent has ended."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parent = 0
        self._pid: int | None = None

    def ensure_running(self) -> None:
        """Start the process if it is not running."""
        if self._pid is not None and not _has_ended(self._pid):
            return
        if self._pid is not None:
            _log.error("the sidecar process ended; restarting it", extra={"data": {"process": self._pid}})
        self._parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._run_child()

    def stop(self, timeout: float) -> None:
        """Let the process finish for that many seconds, then kill it."""
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
                if _has_ended(pid):
                    return
                time.sleep(0.01)

    def _run_child(self) -> None:
        """Run in the forked child; never return."""
        code = 1
        try:
            # Above all the listening socket: while a process holds it, clients wait instead of being refused.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            # Requests have priority.
            os.nice(NICE)
            ending = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: ending.set())
            # Ctrl-C reaches the whole process group; the master decides what happens then.
            for name in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
                signal.signal(name, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._run(lambda seconds: ending.wait(seconds) or os.getppid() != self._parent)
            code = 0
        except Exception:  # noqa: BLE001 - the process's edge: it is restarted
            _log.exception("the sidecar process failed")
        finally:
            os._exit(code)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        # It has already been waited for.
        return True
