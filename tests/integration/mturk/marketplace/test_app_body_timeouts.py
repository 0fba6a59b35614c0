"""The marketplace process waits for slow clients, for a limited time."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from urllib.parse import urlsplit

import pytest

from mturk.marketplace import app
from tests.bench.crashing.place import Place, marketplace

BODY = b"{}"
FORM = "application/x-www-form-urlencoded"
TARGET = "MTurkRequesterServiceV20170117.GetAccountBalance"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with marketplace(tmp_path_factory.mktemp("marketplace")) as running:
        yield running


def connect(place: Place) -> socket.socket:
    parts = urlsplit(place.url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30)


def headers(path: str, length: int, *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: market", f"Content-Length: {length}", *more, "", ""]
    return "\r\n".join(lines).encode()


def status(connection: socket.socket) -> int:
    response = HTTPResponse(connection)
    response.begin()
    response.read()
    return response.status


@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        ("/", (f"X-Amz-Target: {TARGET}", "Content-Type: application/x-amz-json-1.1"), 403),
        ("/mturk/externalSubmit", (f"Content-Type: {FORM}",), 400),
    ],
    ids=["a requester", "a worker"],
)
def test_a_body_that_arrives_after_its_headers_is_read_on_every_request_of_a_connection(
    place: Place, path: str, more: tuple[str, ...], expected: int
) -> None:
    with connect(place) as connection:
        for _ in range(3):
            connection.sendall(headers(path, len(BODY), *more))
            time.sleep(0.15)  # the pause between headers and body is what is tested
            connection.sendall(BODY)
            assert status(connection) == expected


def test_many_slow_clients_do_not_block_the_others(place: Place) -> None:
    stop = threading.Event()

    def trickle(connection: socket.socket) -> None:
        with suppress(OSError):
            while not stop.wait(0.5):
                connection.sendall(b"x")

    with ThreadPoolExecutor(20) as pool, ExitStack() as stack:
        for number in range(20):
            connection = stack.enter_context(connect(place))
            path, more = ("/", f"X-Amz-Target: {TARGET}") if number % 2 else ("/account/link", f"Content-Type: {FORM}")
            connection.sendall(headers(path, 900_000, more) + b"a")
            pool.submit(trickle, connection)
        stack.callback(stop.set)
        started = time.monotonic()
        with connect(place) as visitor:
            visitor.sendall(b"GET /health HTTP/1.1\r\nHost: market\r\n\r\n")
            assert status(visitor) == 200
    assert time.monotonic() - started < 15


def test_a_client_that_stops_sending_gets_a_timeout(place: Place) -> None:
    assert app.IDLE_SECONDS <= 15
    with connect(place) as connection:
        connection.sendall(headers("/", 500, f"X-Amz-Target: {TARGET}"))
        assert status(connection) == 408
