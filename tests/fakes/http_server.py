"""The HTTP server of a process, in a thread, for small WSGI applications."""

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPResponse
from types import TracebackType
from typing import Self
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from ml_backend.serving.connections import DEFAULT_LIMITS, ConnectionLimits
from ml_backend.serving.http_server import HttpServer
from ml_backend.serving.processes import Address

PATIENCE = 30.0


class RunningServer:
    """A server that answers until the end of the block."""

    def __init__(
        self,
        app: WSGIApplication,
        at_once: int = 2,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        one_by_one: str = "",
        streamed: str = "",
    ) -> None:
        self._listening = Address("127.0.0.1", 0).listen()
        self.port: int = self._listening.getsockname()[1]
        self._server = HttpServer(app, at_once, grace=10, limits=limits, one_by_one=one_by_one, streamed=streamed)
        self._thread = threading.Thread(target=self._server.serve_on, args=([self._listening], lambda: None))

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request on a new connection; return the status and body of the response."""
        with self.connect() as client:
            client.sendall(request)
            response = HTTPResponse(client)
            response.begin()
            return response.status, response.read()

    def get(self, path: str, timeout: float = PATIENCE) -> tuple[int, bytes]:
        """Ask for a path; return the status and body of the response."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def begin_stop(self) -> None:
        """Accept no more requests."""
        self._server.should_exit = True

    def stop(self) -> None:
        """Finish the current requests, and stop."""
        self.begin_stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


@contextmanager
def busy_server(app: WSGIApplication, at_once: int = 2) -> Iterator[RunningServer]:
    """Serve an application while all threads for its requests are busy, and more requests wait for them."""
    end, begun = threading.Event(), threading.Semaphore(0)

    def held_or_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/held":
            return app(environ, start_response)
        begun.release()
        end.wait(PATIENCE)
        start_response("200 OK", [])
        return [b""]

    with RunningServer(held_or_app, at_once) as server, ExitStack() as stack:
        for _ in range(at_once + 2):
            stack.enter_context(server.connect()).sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(at_once):
            assert begun.acquire(timeout=PATIENCE)
        try:
            yield server
        finally:
            end.set()
