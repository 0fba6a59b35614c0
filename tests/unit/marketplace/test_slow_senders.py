"""Real sockets, with little patience."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from mturk.marketplace.body_timeouts import BodyLimits, BodyTimeouts

SIZE = 1_000


@dataclass
class Wire:
    """Connections of which one end sends a byte now and then, as long as anybody reads."""

    senders: BodyTimeouts
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
        """What an application gets that reads the body, and is done then."""
        got: list[bytes] = []

        def app(environ: Any, _start: Any) -> list[bytes]:
            got.append(environ["wsgi.input"].read(size))
            return []

        answer: Any = self.senders.wrap(app)(environ, lambda *_: lambda _data: None)
        answer.close()
        return got[0]

    def trickle(self, over: threading.Event) -> None:
        while not over.wait(0.02):
            for one in self.ends[1::2]:
                one.send(b"x")


@pytest.fixture
def wire() -> Iterator[Wire]:
    patience = BodyLimits(seconds=0.6, slow_after_seconds=0.1, slow_at_once=2, poll_seconds=0.02)
    made = Wire(BodyTimeouts(patience))
    yield made
    for one in made.ends:
        one.close()


def seconds_until_cut(wire: Wire, environ: dict[str, Any]) -> float:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        wire.read(environ)
    return time.monotonic() - began


def test_a_body_that_trickles_is_cut_off_in_the_end(wire: Wire) -> None:
    environ, over = wire.request(), threading.Event()
    with ThreadPoolExecutor() as pool:
        pool.submit(wire.trickle, over)
        assert 0.6 <= seconds_until_cut(wire, environ) < 5
        over.set()


def test_of_many_bodies_that_trickle_only_a_few_are_waited_for(wire: Wire) -> None:
    requests, over = [wire.request() for _ in range(8)], threading.Event()
    with ThreadPoolExecutor(9) as pool:
        pool.submit(wire.trickle, over)
        waited = sorted(pool.map(lambda one: seconds_until_cut(wire, one), requests))
        over.set()
    assert [seconds < 0.5 for seconds in waited] == [True] * 6 + [False] * 2


def test_a_body_that_comes_in_time_is_read_whole(wire: Wire) -> None:
    environ = wire.request()
    wire.ends[1].sendall(b"y" * SIZE)
    assert wire.read(environ) == b"y" * SIZE
    wire.ends[1].sendall(b"z")
    assert wire.ends[0].recv(1) == b"z", "and the connection is kept"


def test_what_nobody_read_is_taken_in_and_the_connection_is_kept(wire: Wire) -> None:
    environ = wire.request()
    wire.ends[1].sendall(b"y" * SIZE + b"z")
    assert wire.read(environ, 10) == b"y" * 10
    wire.ends[0].sendall(b"an answer")
    assert wire.ends[1].recv(9) == b"an answer"


def test_who_never_ends_a_body_that_nobody_reads_is_hung_up_on(wire: Wire) -> None:
    environ = wire.request()
    wire.ends[1].sendall(b"y" * 10)
    assert wire.read(environ, 10) == b"y" * 10
    wire.ends[1].settimeout(5)
    assert wire.ends[1].recv(1) == b""


def test_who_says_nothing_at_all_is_cut_off_too(wire: Wire) -> None:
    assert seconds_until_cut(wire, wire.request()) < 5


def test_a_length_that_is_only_announced_buys_little(wire: Wire) -> None:
    assert seconds_until_cut(wire, wire.request("9" * 15)) < 5
