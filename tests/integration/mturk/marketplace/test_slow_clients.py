"""The marketplace process answers others while it waits for slow clients."""

import socket
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from urllib.parse import urlsplit

import pytest

from tests.bench.crashing.place import Place, marketplace
from tests.fakes.slow_clients import SlowClients

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


def test_slow_clients_do_not_delay_others(place: Place) -> None:
    with SlowClients(int(urlsplit(place.url).port or 0), 48, "/mturk/externalSubmit", seconds=0.5):
        for _ in range(5):
            with connect(place) as visitor:
                visitor.settimeout(5)
                visitor.sendall(b"GET /health HTTP/1.1\r\nHost: market\r\n\r\n")
                assert status(visitor) == 200
