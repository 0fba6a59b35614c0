"""Limits on reading bodies, with real sockets and short timeouts."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from mturk.marketplace.app import BodyLimits, BodyTimeouts

SIZE = 1_000


@dataclass
class Connections:
    """Socket pairs whose client ends can send a byte now and then."""

    timeouts: BodyTimeouts
    ends: list[socket.socket] = field(default_factory=list)

    def request(self, length: str = str(SIZE)) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        self.ends += [ours, theirs]
        environ: dict[str, Any] = {
            "gunicorn.socket": ours,
            "CONTENT_LENGTH": length,
            "wsgi.input": ours.makefile("rb"),
        }
        return environ

    def read(self, environ: dict[str, Any], size: int = SIZE) -> bytes:
        """Run an application that reads the body once; return what it read."""
        read: list[bytes] = []

        def app(environ: Any, _start: Any) -> list[bytes]:
            read.append(environ["wsgi.input"].read(size))
            return []

        response: Any = self.timeouts.wrap(app)(environ, lambda *_: lambda _data: None)
        response.close()
        return read[0]

    def trickle(self, stop: threading.Event) -> None:
        while not stop.wait(0.02):
            for one in self.ends[1::2]:
                one.send(b"x")


@pytest.fixture
def connections() -> Iterator[Connections]:
    limits = BodyLimits(seconds=0.6, slow_after_seconds=0.1, slow_at_once=2, poll_seconds=0.02)
    made = Connections(BodyTimeouts(limits))
    yield made
    for one in made.ends:
        one.close()


def seconds_until_timeout(connections: Connections, environ: dict[str, Any]) -> float:
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        connections.read(environ)
    return time.monotonic() - started


def test_a_body_that_arrives_too_slowly_times_out(connections: Connections) -> None:
    environ, stop = connections.request(), threading.Event()
    with ThreadPoolExecutor() as pool:
        pool.submit(connections.trickle, stop)
        assert 0.6 <= seconds_until_timeout(connections, environ) < 5
        stop.set()


def test_only_a_few_slow_bodies_are_read_at_once(connections: Connections) -> None:
    requests, stop = [connections.request() for _ in range(8)], threading.Event()
    with ThreadPoolExecutor(9) as pool:
        pool.submit(connections.trickle, stop)
        waited = sorted(pool.map(lambda one: seconds_until_timeout(connections, one), requests))
        stop.set()
    assert [seconds < 0.5 for seconds in waited] == [True] * 6 + [False] * 2


def test_a_body_that_arrives_in_time_is_read_completely(connections: Connections) -> None:
    environ = connections.request()
    connections.ends[1].sendall(b"y" * SIZE)
    assert connections.read(environ) == b"y" * SIZE
    connections.ends[1].sendall(b"z")
    assert connections.ends[0].recv(1) == b"z", "the connection stays open"


def test_an_unread_rest_is_discarded_and_the_connection_stays_open(connections: Connections) -> None:
    environ = connections.request()
    connections.ends[1].sendall(b"y" * SIZE + b"z")
    assert connections.read(environ, 10) == b"y" * 10
    connections.ends[0].sendall(b"a response")
    assert connections.ends[1].recv(10) == b"a response"


def test_a_client_that_never_ends_an_unread_body_is_disconnected(connections: Connections) -> None:
    environ = connections.request()
    connections.ends[1].sendall(b"y" * 10)
    assert connections.read(environ, 10) == b"y" * 10
    connections.ends[1].settimeout(5)
    assert connections.ends[1].recv(1) == b""


def test_a_client_that_sends_nothing_times_out(connections: Connections) -> None:
    assert seconds_until_timeout(connections, connections.request()) < 5


def test_a_large_declared_length_extends_the_limit_only_a_little(connections: Connections) -> None:
    assert seconds_until_timeout(connections, connections.request("9" * 15)) < 5
