"""The marketplace as one WSGI application: the requester API, the worker site and the health check.

Time limits for reading request bodies keep slow clients from occupying every thread.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from socket import SHUT_RD, SHUT_RDWR
from typing import Any, Protocol
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.middleware.proxy_fix import ProxyFix

from mturk.marketplace.api.app import RequesterApi
from mturk.marketplace.destinations import QueueNetworks
from mturk.marketplace.market import Market
from mturk.marketplace.site.app import worker_site
from mturk.marketplace.urls import public_address

IDLE_SECONDS = 10.0
SECONDS_FOR_THE_REST = 3.0
MAX_DISCARDED_BYTES = 50_000_000
CHUNK_BYTES = 65_536
MAX_LENGTH_DIGITS = 16


def marketplace_app(
    market: Market,
    *,
    public_url: str,
    proxies: int = 0,
    queues: QueueNetworks | None = None,
    signing_time: Callable[[], datetime] | None = None,
) -> WSGIApplication:
    """Return the application; `proxies` is the number of trusted reverse proxies in front of it.

    `queues` says where events may be sent; without it, to public addresses only.
    """
    address = public_address(public_url)
    api = RequesterApi(market, address, queues=queues, signing_time=signing_time)
    site = worker_site(market, address)
    if proxies:
        # Without this, every visitor would have the proxy's address.
        site.wsgi_app = ProxyFix(site.wsgi_app, x_for=proxies)  # type: ignore[method-assign]
    site.add_url_rule("/health", "health", lambda: market.health.health().as_response())

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return api(environ, start_response) if api.handles(environ) else site(environ, start_response)

    return BodyTimeouts().wrap(app)


@dataclass(frozen=True)
class BodyLimits:
    """How long a body may take: `seconds`, and more for a large one; and how many slow ones are read at once."""

    seconds: float = 30.0
    bytes_per_second: int = 20_000
    # A body that takes longer than this counts as slow.
    slow_after_seconds: float = 1.0
    # Below the number of threads of a process, so that the others answer fast clients.
    slow_at_once: int = 6
    poll_seconds: float = 0.25


class SocketLike(Protocol):
    """The methods of a socket that are used."""

    def settimeout(self, value: float | None, /) -> None: ...

    def shutdown(self, how: int, /) -> None: ...


@dataclass(eq=False)
class _BodyRead:
    connection: SocketLike
    started: float
    deadline: float
    cancelled: bool = False


class BodyTimeouts:
    """Watches the bodies that are being read, and cancels those that take too long."""

    def __init__(self, limits: BodyLimits | None = None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits or BodyLimits()
        self._seconds = seconds
        self._reads: dict[int, _BodyRead] = {}
        self._lock = threading.Lock()
        self._watching = False

    def wrap(self, app: WSGIApplication) -> WSGIApplication:
        """Return the application with time limits: reading a body that takes too long raises a TimeoutError."""

        def wrapped(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            body = self._timed_body(environ)
            if body is None:
                return app(environ, start_response)
            environ["wsgi.input"] = body
            return _Response(app(environ, start_response), body)

        return wrapped

    def _timed_body(self, environ: WSGIEnvironment) -> "_TimedBody | None":
        connection = environ.get("gunicorn.socket")
        if connection is None:
            return None
        # A kept-alive connection is non-blocking: without a timeout, a body that is not there yet would be an error.
        connection.settimeout(IDLE_SECONDS)
        now = self._seconds()
        header = environ.get("CONTENT_LENGTH") or "0"
        length = int(header) if header.isascii() and header.isdigit() and len(header) < MAX_LENGTH_DIGITS else 0
        if not length and "HTTP_TRANSFER_ENCODING" not in environ:
            return None
        # Capped, because a client can declare any length.
        extra = min(length, MAX_DISCARDED_BYTES) / self._limits.bytes_per_second
        deadline = now + self._limits.seconds + min(extra, 4 * self._limits.seconds)
        return _TimedBody(self, environ["wsgi.input"], _BodyRead(connection, now, deadline), length or None)

    @contextmanager
    def watch(self, read: _BodyRead) -> Iterator[None]:
        """Allow the read to be cancelled until the end of the block."""
        with self._lock:
            self._reads[id(read)] = read
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._run, name="body-timeouts", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._reads.pop(id(read), None)
        if read.cancelled:
            raise TimeoutError("the request body took too long")

    def _run(self) -> None:
        """Check all reads periodically; end when none is left."""
        while True:
            time.sleep(self._limits.poll_seconds)
            with self._lock:
                if not self._reads:
                    self._watching = False
                    return
                for read in self._too_slow():
                    read.cancelled = True
                    with suppress(OSError):
                        # Wakes up the thread that waits for more.
                        read.connection.shutdown(SHUT_RD)

    def _too_slow(self) -> list[_BodyRead]:
        now = self._seconds()
        slow = [read for read in self._reads.values() if now - read.started > self._limits.slow_after_seconds]
        slow.sort(key=lambda read: read.started, reverse=True)
        late = [read for read in slow[: self._limits.slow_at_once] if read.deadline <= now]
        return [*late, *slow[self._limits.slow_at_once :]]


class _TimedBody:
    """A body whose reader waits no longer than allowed."""

    def __init__(self, timeouts: BodyTimeouts, body: Any, read: _BodyRead, length: int | None) -> None:
        self._timeouts = timeouts
        self._body = body
        self._read = read
        self._length = length
        self._received = 0
        self._ended = length == 0

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        with self._timeouts.watch(self._read):
            data: bytes = self._body.read(size)
        self._received += len(data)
        self._ended = self._received >= self._length if self._length is not None else size < 0 or len(data) < size
        return data

    def finish(self) -> None:
        """Discard what was not read, for a short time; then close the connection of a client that still sends.

        Many clients do not read a response while they are sending, and the server itself would wait without limit.
        """
        self._read.deadline = min(self._read.deadline, time.monotonic() + SECONDS_FOR_THE_REST)
        # The response was sent already, so any error in the rest of the body is ignored.
        with suppress(Exception):
            while not self._ended and self._received < MAX_DISCARDED_BYTES and self.read(self._next_size()):
                pass
        if not self._ended:
            with suppress(OSError):
                self._read.connection.shutdown(SHUT_RDWR)

    def _next_size(self) -> int:
        return CHUNK_BYTES if self._length is None else min(CHUNK_BYTES, self._length - self._received)


class _Response:
    """A response; when it was sent, the rest of the request's body is discarded."""

    def __init__(self, response: Iterable[bytes], body: _TimedBody) -> None:
        self._response = response
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        """Called by the server after everything was sent."""
        try:
            if hasattr(self._response, "close"):
                self._response.close()
        finally:
            self._body.finish()
