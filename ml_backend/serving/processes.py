"""Processes that serve a web application under gunicorn: each begins its own, and all of them end with grace."""

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
from ml_backend.serving import bodies
from ml_backend.serving.beside import Beside, Run
from ml_backend.serving.metrics import SHARED_FOLDER, forget_process

# Of the time for a graceful end, what is kept for what runs beside the requests.
SECONDS_FOR_THE_REST = 5
# A worker whose main thread says nothing for so long is taken for dead; the first models may take a while to load.
SECONDS_SILENT = 300
BACKLOG = 512
MILLISECONDS_TO_LINGER = 100
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 is any free one."""

    host: str
    port: int

    def listen(self) -> socket.socket:
        """A socket that listens there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            text = f"cannot listen on {self.host} port {self.port}: {error.strerror}"
            raise BackendError(f"{text}; choose another with --host and --port") from error
        listening.listen(BACKLOG)
        return listening


@dataclass(frozen=True)
class Workers:
    """How many processes serve under which name, with how many threads each, and in how many seconds they must end."""

    name: str
    count: int
    threads: int
    grace: int


class Serving(Protocol):
    """What one process serves, from its beginning to its end."""

    @property
    def app(self) -> WSGIApplication:
        """What answers requests."""
        ...

    def close(self, timeout: float) -> None:
        """Ends what runs beside the requests, in so many seconds."""
        ...


# Called in every process after it has begun, with a folder that all of them share.
Begin = Callable[[Path], Serving]


def serve_processes(begin: Begin, listening: socket.socket, workers: Workers, beside: Run | None = None) -> None:
    """Serves until SIGTERM or SIGINT, then finishes what it has in time; `beside` runs in one more process meanwhile.

    It ends the process: workers are copies of it, and none of them may come back to whoever called this.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{workers.name}-", dir=_in_memory()))
    host, port = listening.getsockname()[:2]
    _log.info("serving", extra={"data": {"at": f"{host}:{port}", "workers": workers.count}})
    _Application(begin, listening.detach(), folder, workers, Beside(beside) if beside else None).run()


class _Application(BaseApplication):  # type: ignore[misc]
    """What gunicorn asks for; `folder` is the processes' own and ends with them."""

    def __init__(self, begin: Begin, descriptor: int, folder: Path, workers: Workers, beside: Beside | None) -> None:
        self._begin = begin
        self._beside = beside
        self._folder = folder
        self._serving: Serving | None = None
        self._settings: dict[str, Any] = {
            "bind": f"fd://{descriptor}",
            "workers": workers.count,
            "worker_class": _Worker,
            "threads": workers.threads,
            "timeout": SECONDS_SILENT,
            "graceful_timeout": workers.grace,
            "keepalive": 30,
            "worker_tmp_dir": str(folder),
            "errorlog": None,
            "loglevel": "warning",
            "logger_class": _Logger,
            "control_socket_disable": True,
            "proc_name": workers.name,
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
        """The application; called in every worker, so that each has models and connections of its own."""
        self._serving = self._begin(self._folder / "shared")
        return self._serving.app

    def run(self) -> None:
        """Runs until it is told to stop."""
        (self._folder / "shared").mkdir()
        (self._folder / "figures").mkdir()
        os.environ[SHARED_FOLDER] = str(self._folder / "figures")
        _Arbiter(self, self._beside).run()

    def _worker_began(self, worker: Any) -> None:
        # Ctrl-C reaches the whole process group; it is for the master to say what happens then.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The master kills whoever is not done when the time is over, so that requests may not use all of it.
        worker.cfg.set("graceful_timeout", max(1, self.cfg.graceful_timeout - SECONDS_FOR_THE_REST - 1))

    def _worker_ends(self, _server: Any, _worker: Any) -> None:
        if self._serving is not None:
            self._serving.close(SECONDS_FOR_THE_REST - 1)

    def _worker_ended(self, _server: Any, worker: Any) -> None:
        forget_process(worker.pid)

    def _all_ended(self, _server: Any) -> None:
        if self._beside:
            self._beside.stop(SECONDS_FOR_THE_REST)
        shutil.rmtree(self._folder, ignore_errors=True)


class _Arbiter(Arbiter):  # type: ignore[misc]
    def __init__(self, application: BaseApplication, beside: Beside | None) -> None:
        super().__init__(application)
        self._beside = beside

    def manage_workers(self) -> None:
        """Called every second or so, and when a worker ends."""
        if self._beside:
            self._beside.keep()
        super().manage_workers()

    def handle_int(self) -> None:
        """Ctrl-C is as graceful as SIGTERM."""
        self.handle_term()


class _Worker(ThreadWorker):  # type: ignore[misc]
    """Threads that wait a moment for a connection's next request before they give the connection back.

    Handing it to the main thread and from there to another takes longer than all of our own work. Nobody is kept
    waiting by it, for it is only done while there is a thread for every connection.
    """

    def handle(self, conn: Any) -> Any:
        """Handles a connection's requests for as long as they follow each other."""
        kept = self._handle_once(conn)
        while kept is True and self.alive and self.nr_conns <= self.cfg.threads and self._next_comes(conn):
            kept = self._handle_once(conn)
        return kept

    def _handle_once(self, conn: Any) -> Any:
        # A client that has begun a request and says nothing more must not keep a thread.
        patience, began = bodies.SECONDS_OF_SILENCE, time.monotonic()
        silence = struct.pack("ll", *divmod(int(patience * 1_000_000), 1_000_000))
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, silence)
        kept = super().handle(conn)
        if kept is False and time.monotonic() - began >= patience:
            # Or the main thread would wait for it to say goodbye, one such client after the other.
            with suppress(OSError):
                conn.sock.shutdown(socket.SHUT_RDWR)
        return kept

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - gunicorn's own signature
        """At the end it closes the door too: whoever comes then is refused at once instead of left waiting."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listening in self.sockets:
                listening.close()

    @staticmethod
    def _next_comes(conn: Any) -> bool:
        waiting = select.poll()
        waiting.register(conn.sock, select.POLLIN)
        return bool(conn.parser.unreader.buf.getvalue() or waiting.poll(MILLISECONDS_TO_LINGER))


class _Logger(Logger):  # type: ignore[misc]
    """Leaves it to the process how its log looks."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.error_log.propagate = True

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Of a request that cannot be read only what kind of fault it has: there may be a token in its words."""
        error = sys.exc_info()[1]
        if isinstance(error, ParseException):
            super().warning("a request that is no HTTP was refused: %s", type(error).__name__)
        else:
            super().warning(msg, *args, **kwargs)

    def exception(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """A client that fell silent is no failure of ours, and must not fill the log; what was asked is cut short."""
        if isinstance(sys.exc_info()[1], BlockingIOError | TimeoutError):
            self.debug(msg, *args)
        else:
            super().exception(msg, *(str(one).partition("?")[0] for one in args), **kwargs)


def _in_memory() -> str | None:
    """A folder that is memory, where there is one: what is noted there is of people who are writing just now."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108 - mkdtemp makes its own in it
