"""Worker processes that serve a web application under gunicorn, with graceful shutdown."""

import logging
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from wsgiref.types import WSGIApplication

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from ml_backend.errors import BackendError
from ml_backend.serving import middleware
from ml_backend.serving.metrics import SHARED_FOLDER, forget_process
from ml_backend.serving.sidecar import Run, Sidecar

# The part of the grace period that is kept for closing the worker and the sidecar.
CLOSE_SECONDS = 5
# A worker whose main thread is silent for this long is considered dead; the first models may take a while to load.
WORKER_TIMEOUT = 300
BACKLOG = 512
LINGER_MILLISECONDS = 100
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
    """The worker processes: their name, number and threads, and the grace period in seconds for shutdown."""

    name: str
    count: int
    threads: int
    grace: int


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
        self._worker: WorkerProcess | None = None
        self._settings: dict[str, Any] = {
            "bind": f"fd://{descriptor}",
            "workers": workers.count,
            "worker_class": _Worker,
            "threads": workers.threads,
            "timeout": WORKER_TIMEOUT,
            "graceful_timeout": workers.grace,
            "keepalive": 30,
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


class _Worker(ThreadWorker):  # type: ignore[misc]
    """Threads that wait briefly for a connection's next request before they return the connection.

    Handing it to the main thread and on to another takes longer than answering. No other connection waits for it: it is
    only done while there is a thread for every connection.
    """

    def handle(self, conn: Any) -> Any:
        """Handle a connection's requests as long as they follow each other closely."""
        kept = self._handle_once(conn)
        while kept is True and self.alive and self.nr_conns <= self.cfg.threads and self._has_next(conn):
            kept = self._handle_once(conn)
        return kept

    def _handle_once(self, conn: Any) -> Any:
        # A client that stops in the middle of a request must not occupy a thread.
        timeout, began = middleware.IDLE_SECONDS, time.monotonic()
        idle = struct.pack("ll", *divmod(int(timeout * 1_000_000), 1_000_000))
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, idle)
        kept = super().handle(conn)
        if kept is False and time.monotonic() - began >= timeout:
            # Otherwise the main thread would wait for each such client to close its side.
            with suppress(OSError):
                conn.sock.shutdown(socket.SHUT_RDWR)
        return kept

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - gunicorn's own signature
        """At shutdown, close the listening sockets: new clients are refused at once instead of left waiting."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listening in self.sockets:
                listening.close()

    @staticmethod
    def _has_next(conn: Any) -> bool:
        waiting = select.poll()
        waiting.register(conn.sock, select.POLLIN)
        return bool(conn.parser.unreader.buf.getvalue() or waiting.poll(LINGER_MILLISECONDS))


class _Logger(Logger):  # type: ignore[misc]
    """Uses the logging configuration of the process."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.error_log.propagate = True

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log only the type of a request that cannot be parsed: its text may contain a token."""
        error = sys.exc_info()[1]
        if isinstance(error, ParseException):
            super().warning("refused a request that is not valid HTTP: %s", type(error).__name__)
        else:
            super().warning(msg, *args, **kwargs)

    def exception(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a client that went silent only at debug level, and URLs without their query."""
        if isinstance(sys.exc_info()[1], BlockingIOError | TimeoutError):
            self.debug(msg, *args)
        else:
            super().exception(msg, *(str(one).partition("?")[0] for one in args), **kwargs)


def _in_memory() -> str | None:
    """Return a folder in memory, if there is one: the shared cache holds what people are writing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108 - mkdtemp makes its own in it
