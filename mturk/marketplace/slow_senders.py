"""Bodies of requests, taken in bounded time: who sends slowly is waited for, but not for ever nor by all threads."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import SHUT_RD, SHUT_RDWR
from typing import Any, Protocol
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

SECONDS_OF_SILENCE = 10.0
SECONDS_FOR_THE_REST = 3.0
DISCARDED_BYTES = 50_000_000
PIECE = 65_536
# Of a Content-Length; there is no longer one that is meant.
DIGITS = 16


@dataclass(frozen=True)
class Patience:
    """How long a body may take: `seconds`, and more for a large one; of those that take long, few at the same time."""

    seconds: float = 30.0
    bytes_per_second: int = 20_000
    seconds_unnoticed: float = 1.0
    # Less than the threads of a process: the others answer those who do not dawdle.
    slow_at_once: int = 6
    look_seconds: float = 0.25


class Connection(Protocol):
    """What is used of a socket."""

    def settimeout(self, value: float | None, /) -> None: ...

    def shutdown(self, how: int, /) -> None: ...


@dataclass(eq=False)
class _Reading:
    connection: Connection
    began: float
    deadline: float
    cut: bool = False


class SlowSenders:
    """Watches over the bodies that are being read, and cuts off those that take too long."""

    def __init__(self, patience: Patience | None = None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience or Patience()
        self._seconds = seconds
        self._reading: dict[int, _Reading] = {}
        self._lock = threading.Lock()
        self._watching = False

    def watch(self, app: WSGIApplication) -> WSGIApplication:
        """The application, in which whoever reads a body gets a TimeoutError instead of waiting too long."""

        def watched(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            body = self._timed(environ)
            if body is None:
                return app(environ, start_response)
            environ["wsgi.input"] = body
            return _Answer(app(environ, start_response), body)

        return watched

    def _timed(self, environ: WSGIEnvironment) -> "_TimedBody | None":
        connection = environ.get("gunicorn.socket")
        if connection is None:
            return None
        # A kept connection comes without waiting: a body that is not there yet would be an error.
        connection.settimeout(SECONDS_OF_SILENCE)
        now = self._seconds()
        told = environ.get("CONTENT_LENGTH") or "0"
        length = int(told) if told.isascii() and told.isdigit() and len(told) < DIGITS else 0
        if not length and "HTTP_TRANSFER_ENCODING" not in environ:
            return None
        # A length that is only announced must not buy hours.
        more = min(length, DISCARDED_BYTES) / self._patience.bytes_per_second
        reading = _Reading(connection, now, now + self._patience.seconds + min(more, 4 * self._patience.seconds))
        return _TimedBody(self, environ["wsgi.input"], reading, length or None)

    @contextmanager
    def over(self, reading: _Reading) -> Iterator[None]:
        """While this lasts, the body can be cut off."""
        with self._lock:
            self._reading[id(reading)] = reading
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="slow-senders", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._reading.pop(id(reading), None)
        if reading.cut:
            raise TimeoutError("the body took too long")

    def _watch(self) -> None:
        """Looks now and then while bodies are being read; ends when none is."""
        while True:
            time.sleep(self._patience.look_seconds)
            with self._lock:
                if not self._reading:
                    self._watching = False
                    return
                for reading in self._too_slow():
                    reading.cut = True
                    with suppress(OSError):
                        # Whoever waits for more is told at once that there is none.
                        reading.connection.shutdown(SHUT_RD)

    def _too_slow(self) -> list[_Reading]:
        now = self._seconds()
        slow = [one for one in self._reading.values() if now - one.began > self._patience.seconds_unnoticed]
        slow.sort(key=lambda one: one.began, reverse=True)
        late = [one for one in slow[: self._patience.slow_at_once] if one.deadline <= now]
        return [*late, *slow[self._patience.slow_at_once :]]


class _TimedBody:
    """A body whose reader is never kept for longer than it was granted."""

    def __init__(self, senders: SlowSenders, body: Any, reading: _Reading, length: int | None) -> None:
        self._senders = senders
        self._body = body
        self._reading = reading
        self._length = length
        self._got = 0
        self._ended = length == 0

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes of it."""
        with self._senders.over(self._reading):
            data: bytes = self._body.read(size)
        self._got += len(data)
        self._ended = self._got >= self._length if self._length is not None else size < 0 or len(data) < size
        return data

    def finish(self) -> None:
        """Takes in what nobody read, for a short while; who is still sending then is hung up on.

        Many clients hear no answer while they are sending, and the server's own wait for the rest has no end.
        """
        self._reading.deadline = min(self._reading.deadline, time.monotonic() + SECONDS_FOR_THE_REST)
        # Whatever it is that is wrong with the rest, the answer was given.
        with suppress(Exception):
            while not self._ended and self._got < DISCARDED_BYTES and self.read(self._next_piece()):
                pass
        if not self._ended:
            with suppress(OSError):
                self._reading.connection.shutdown(SHUT_RDWR)

    def _next_piece(self) -> int:
        return PIECE if self._length is None else min(PIECE, self._length - self._got)


class _Answer:
    """An answer; when it is on its way, what is left of the request is seen to."""

    def __init__(self, answer: Iterable[bytes], body: _TimedBody) -> None:
        self._answer = answer
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        """Called by the server when everything was sent."""
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        finally:
            self._body.finish()
