"""Worker processes that serve a web application, managed by gunicorn, with graceful shutdown."""

import gc
import logging
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from wsgiref.types import WSGIApplication

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker

from ml_backend.errors import BackendError
from ml_backend.serving.connections import DEFAULT_LIMITS, ConnectionLimits
from ml_backend.serving.http_server import BACKLOG, HttpServer
from ml_backend.serving.metrics import SHARED_FOLDER, forget_process
from ml_backend.serving.sidecar import Run, Sidecar

# The part of the grace period that is kept for closing the worker and the sidecar.
CLOSE_SECONDS = 5
# A worker whose main thread is silent for this long is considered dead; the first models may take a while to load.
WORKER_TIMEOUT = 300
_log = logging.getLogger(__name__)


class AddressUnavailable(BackendError):
    """The server cannot listen on the address."""


@dataclass(frozen=True)
class Address:
    """The address to listen on; port 0 picks a free one."""

    host: str
    port: int

    def listen(self) -> socket.socket:
        """Return a listening socket."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            text = f"cannot listen on {self.host} port {self.port}: {error.strerror}"
            raise AddressUnavailable(f"{text}; choose another host or port") from error
        listening.listen(BACKLOG)
        return listening


@dataclass(frozen=True)
class Workers:
    """The worker processes: their name and number, the requests each answers at once, and the seconds to shut down.

    Requests whose path matches the pattern `one_by_one` are answered one after the other, beside the others.
    Bodies of those that match `streamed` are read while they arrive.
    """

    name: str
    count: int
    threads: int
    grace: int
    limits: ConnectionLimits = DEFAULT_LIMITS
    one_by_one: str = ""
    streamed: str = ""


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class WorkerProcess(Protocol):
    """What one worker process serves."""

    @property
    def app(self) -> WSGIApplication:
        """The application that answers requests."""

    def close(self, timeout: float) -> None:
        """Release resources within that many seconds."""


# Called in every worker process after the fork, with a folder that all of them share.
StartWorker = Callable[[Path], WorkerProcess]


def serve_processes(
    start_worker: StartWorker, listening: socket.socket, workers: Workers, sidecar: Run | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, then finish the current requests; `sidecar` runs in one more process.

    This call ends the process: workers are forks of it, and none of them may return to the caller.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{workers.name}-", dir=_in_memory()))
    host, port = listening.getsockname()[:2]
    _log.info("serving", extra={"data": {"at": f"{host}:{port}", "workers": workers.count}})
    _Application(start_worker, listening.detach(), folder, workers, Sidecar(sidecar) if sidecar else None).run()


class _Application(BaseApplication):  # type: ignore[misc]
    """The gunicorn application; `folder` is removed when the processes have ended."""

    def __init__(
        self, start_worker: StartWorker, descriptor: int, folder: Path, workers: Workers, sidecar: Sidecar | None
    ) -> None:
        self._start_worker = start_worker
        self._sidecar = sidecar
        self._folder = folder
        self.workers = workers
        self._worker: WorkerProcess | None = None
        self._settings: dict[str, Any] = {
            "bind": f"fd://{descriptor}",
            "workers": workers.count,
            "worker_class": _Worker,
            "threads": workers.threads,
            "timeout": WORKER_TIMEOUT,
            "graceful_timeout": workers.grace,
            "worker_tmp_dir": str(folder),
            "errorlog": None,
            "loglevel": "warning",
            "logger_class": _Logger,
            "control_socket_disable": True,
            "proc_name": workers.name,
            "post_worker_init": self._worker_started,
            "worker_exit": self._worker_exits,
            "child_exit": self._worker_exited,
            "on_exit": self._all_exited,
        }
        super().__init__()

    def load_config(self) -> None:
        """Set every option here; no configuration file is read."""
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Return the application; called in every worker, so that each has its own models and connections."""
        self._worker = self._start_worker(self._folder / "shared")
        return self._worker.app

    def run(self) -> None:
        """Run until a signal ends it."""
        (self._folder / "shared").mkdir()
        (self._folder / "figures").mkdir()
        os.environ[SHARED_FOLDER] = str(self._folder / "figures")
        _Arbiter(self, self._sidecar).run()

    def _worker_started(self, worker: Any) -> None:
        # Ctrl-C reaches the whole process group; the master decides what happens then.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The master kills workers when the grace period is over, so requests must not use all of it.
        worker.cfg.set("graceful_timeout", max(1, self.cfg.graceful_timeout - CLOSE_SECONDS - 1))
        # What is loaded now stays. A collection of garbage that looks through it stops every request for tens of ms.
        gc.collect()
        gc.freeze()

    def _worker_exits(self, _server: Any, _worker: Any) -> None:
        if self._worker is not None:
            self._worker.close(CLOSE_SECONDS - 1)

    def _worker_exited(self, _server: Any, worker: Any) -> None:
        forget_process(worker.pid)

    def _all_exited(self, _server: Any) -> None:
        if self._sidecar:
            self._sidecar.stop(CLOSE_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)


class _Arbiter(Arbiter):  # type: ignore[misc]
    def __init__(self, application: BaseApplication, sidecar: Sidecar | None) -> None:
        super().__init__(application)
        self._sidecar = sidecar

    def manage_workers(self) -> None:
        """Run every second or so, and when a worker exits."""
        if self._sidecar:
            self._sidecar.ensure_running()
        super().manage_workers()

    def handle_int(self) -> None:
        """Treat Ctrl-C like SIGTERM."""
        self.handle_term()


class _Worker(Worker):  # type: ignore[misc]
    """A process that serves the application over HTTP."""

    _server: HttpServer | None = None

    def run(self) -> None:
        """Serve until a signal; called by gunicorn."""
        workers: Workers = self.app.workers
        grace = self.cfg.graceful_timeout
        self._server = HttpServer(
            self.wsgi,
            workers.threads,
            grace=grace,
            limits=workers.limits,
            one_by_one=workers.one_by_one,
            streamed=workers.streamed,
        )
        if self.alive:
            self._server.serve_on([one.sock for one in self.sockets], self._tick)

    def handle_exit(self, _signal: int, _frame: Any) -> None:
        """Stop accepting connections, and finish the current requests."""
        self.alive = False
        self._stop()

    def _tick(self) -> None:
        """Show the master that this process lives; end if the master has ended or a signal came before the server."""
        self.notify()
        if os.getppid() != self.ppid or not self.alive:
            self._stop()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True


class _Logger(Logger):  # type: ignore[misc]
    """Uses the logging configuration of the process."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.error_log.propagate = True


def _in_memory() -> str | None:
    """Return a folder in memory, if there is one: the shared cache holds what people are writing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108 - mkdtemp makes its own in it
