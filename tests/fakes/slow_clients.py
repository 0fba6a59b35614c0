"""Clients that open connections to a server on this machine and send a byte now and then."""

import socket
import threading
from contextlib import suppress
from itertools import cycle
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
MOST = 1_000
HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "
# A body for an existing route of each of the servers, which are different.
BODY = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"


class SlowClients:
    """Connections whose clients send one byte every `seconds`: half of them in a head, half in a body for `path`.

    A connection that the server closes is opened again.
    """

    def __init__(self, port: int, count: int, path: str, seconds: float = 1.0) -> None:
        assert count <= MOST
        beginnings = (HEAD, BODY % path.encode())
        self._port = port
        self._seconds = seconds
        self._clients = [(beginning, self._open(beginning)) for beginning, _ in zip(cycle(beginnings), range(count))]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drip, name="slow clients")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        for _, client in self._clients:
            client.close()

    def _open(self, beginning: bytes) -> socket.socket:
        client = socket.create_connection((HOST, self._port), timeout=30)
        client.sendall(beginning)
        return client

    def _drip(self) -> None:
        while not self._stop.wait(self._seconds):
            for place, (beginning, client) in enumerate(self._clients):
                try:
                    client.sendall(b"x")
                except OSError:
                    client.close()
                    with suppress(OSError):
                        self._clients[place] = (beginning, self._open(beginning))
