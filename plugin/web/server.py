"""Runs the web app under gunicorn: worker processes with threads, ended with grace."""

import logging
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from ml_backend.serving.metrics import SHARED_FOLDER, forget_process

THREADS = 16
SECONDS_SILENT = 120
# Of the time for a graceful end, what is kept for what runs beside the requests.
SECONDS_FOR_THE_REST = 5
_log = logging.getLogger(__name__)


class WebProcess(Protocol):
    """One process of the web app."""

    @property
    def app(self) -> Flask:
        """What answers requests."""
        ...

    def close(self, timeout: float) -> None:
        """Ends what runs beside the requests, in so many seconds."""
        ...


Begin = Callable[[Path], WebProcess]


def serve(begin: Begin, listening: socket.socket, *, workers: int = 1, grace: int = 30) -> None:
    """Serves until SIGTERM or SIGINT, then finishes what it has in `grace` seconds.

    `begin` is called in every process, with a folder that they share. This ends the process: workers are copies of it,
    and none of them may come back to whoever called this.
    """
    folder = Path(tempfile.mkdtemp(prefix="outfox-web-", dir=_in_memory()))
    host, port = listening.getsockname()[:2]
    _log.info("serving", extra={"data": {"at": f"{host}:{port}", "workers": workers}})
    _Application(begin, listening.detach(), folder, workers, grace).run()


class _Application(BaseApplication):  # type: ignore[misc]
    """What gunicorn asks for; `folder` is the processes' own and ends with them."""

    def __init__(self, begin: Begin, descriptor: int, folder: Path, workers: int, grace: int) -> None:
        self._begin = begin
        self._folder = folder
        self._process: WebProcess | None = None
        self._settings: dict[str, Any] = {
            "bind": f"fd://{descriptor}",
            "workers": workers,
            "worker_class": "gthread",
            "threads": THREADS,
            "timeout": SECONDS_SILENT,
            "graceful_timeout": grace,
            "keepalive": 30,
            "worker_tmp_dir": str(folder),
            "errorlog": None,
            "loglevel": "warning",
            "logger_class": _OurLogger,
            "control_socket_disable": True,
            "proc_name": "outfox-serve",
            "post_worker_init": self._worker_began,
            "worker_exit": self._worker_ends,
            "child_exit": self._worker_ended,
            "on_exit": self._all_ended,
        }
        super().__init__()

    def load_config(self) -> None:
        """Everything comes from here; no file is looked for."""
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """The application; called in every worker after it has begun, so that each has connections of its own."""
        self._process = self._begin(self._folder / "shared")
        return self._process.app

    def run(self) -> None:
        """Runs until it is told to stop."""
        (self._folder / "shared").mkdir()
        (self._folder / "figures").mkdir()
        os.environ[SHARED_FOLDER] = str(self._folder / "figures")
        _OurArbiter(self).run()

    def _worker_began(self, worker: Any) -> None:
        # Ctrl-C reaches the whole process group; it is for the master to say what happens then.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The master kills whoever is not done when the time is over, so that requests may not use all of it.
        worker.cfg.set("graceful_timeout", max(1, self.cfg.graceful_timeout - SECONDS_FOR_THE_REST - 1))

    def _worker_ends(self, _server: Any, _worker: Any) -> None:
        if self._process is not None:
            self._process.close(SECONDS_FOR_THE_REST - 1)

    def _worker_ended(self, _server: Any, worker: Any) -> None:
        forget_process(worker.pid)

    def _all_ended(self, _server: Any) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _OurArbiter(Arbiter):  # type: ignore[misc]
    def handle_int(self) -> None:
        """Ctrl-C is as graceful as SIGTERM."""
        self.handle_term()


class _OurLogger(Logger):  # type: ignore[misc]
    """Leaves it to the process how its log looks."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.error_log.propagate = True


def _in_memory() -> str | None:
    """A folder that is memory, where there is one: on a disk, some systems sweep away what looks old."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108 - mkdtemp makes its own in it
