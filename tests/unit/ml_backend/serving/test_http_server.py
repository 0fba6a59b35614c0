"""The server spends no thread on slow clients, on event streams, or on requests that wait for other servers."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from flask import Flask, Response, request, stream_with_context

from ml_backend.serving import request_body, request_threads
from ml_backend.serving.connections import ConnectionLimits
from ml_backend.serving.request_threads import waiting_for_server
from tests.fakes.http_server import RunningServer

LARGE = 20_000_000
HEALTH = ("/health", "/tasks/nli/health", "/tasks/nli/rounds/2/health")
POST = b"POST %s HTTP/1.1\r\nHost: x\r\n"
GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


def read_until(client: socket.socket, text: bytes) -> bytes:
    got = b""
    while text not in got:
        more = client.recv(65_536)
        assert more, got
        got += more
    return got


def read_all(client: socket.socket) -> bytes:
    got = b""
    while more := client.recv(65_536):
        got += more
    return got


class App:
    """A small application with a route for each kind of request."""

    def __init__(self) -> None:
        self.flask = Flask("small", static_folder=None)
        self.answer = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.closed = threading.Semaphore(0)
        routes = (self.plain, self.environ, self.wait, self.block, self.events, self.large, self.unknown, self.fail)
        for route in (*routes, self.upload):
            self.flask.add_url_rule(f"/{route.__name__}", route.__name__, route, methods=["GET", "POST"])
        for path in HEALTH:
            self.flask.add_url_rule(path, path, self.plain)

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/broken":
            raise RuntimeError("outside of Flask")
        if environ["PATH_INFO"] == "/exit":
            raise SystemExit
        if environ["PATH_INFO"] == "/late":
            return self.late(environ, start_response)
        return self.flask(environ, start_response)

    def plain(self) -> Any:
        return {"size": len(request.get_data())}

    def upload(self) -> Any:
        if "refuse" in request.args:
            return {"refused": True}, 401
        request.max_content_length = None
        size = 0
        try:
            while piece := request.stream.read(1 << 20):
                size += len(piece)
                self.waiting.release()
        finally:
            self.closed.release()
        return {"size": size}

    def environ(self) -> Any:
        return {key: value for key, value in request.environ.items() if isinstance(value, str)}

    def block(self) -> Any:
        self.waiting.release()
        self.answer.wait(30)
        return {"waited": True}

    def unknown(self) -> Any:
        """Answer with a body whose length is not known, which may fail in the middle."""

        def pieces() -> Iterator[bytes]:
            try:
                yield b"one "
                if request.args.get("fail"):
                    raise RuntimeError("in the middle")
                yield b"two"
            finally:
                self.closed.release()

        return Response(stream_with_context(pieces()), content_type="text/plain")

    def late(self, _environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Length", "4")])
        yield b"late"

    def wait(self) -> Any:
        with waiting_for_server():
            self.waiting.release()
            self.answer.wait(30)
        return {"waited": True}

    def events(self) -> Any:
        async def stream() -> AsyncIterator[bytes]:
            try:
                for number in range(1_000_000):
                    yield b"data: %d\n\n" % number
                    await asyncio.sleep(0.05)
            finally:
                self.closed.release()

        return Response(stream(), content_type="text/event-stream", direct_passthrough=True)  # type: ignore[arg-type]

    def large(self) -> Any:
        def pieces() -> Iterator[bytes]:
            try:
                for _ in range(LARGE // 50_000):
                    yield b"x" * 50_000
            finally:
                self.closed.release()

        return Response(pieces(), headers={"Content-Length": str(LARGE)})

    def fail(self) -> Any:
        raise RuntimeError("inside of Flask")


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def server(app: App) -> Iterator[RunningServer]:
    with RunningServer(app) as running:
        yield running


def test_event_streams_take_no_thread_and_end_when_the_server_stops(server: RunningServer) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(server.connect()) for _ in range(50)]
        for one in streams:
            one.sendall(GET % b"/events")
        for one in streams:
            read_until(one, b"data: 2\n\n")
        assert server.get("/plain")[0] == 200
        server.stop()
        for one in streams:
            assert read_all(one).endswith(b"0\r\n\r\n")


def test_requests_that_are_answered_one_by_one_do_not_delay_others(app: App) -> None:
    with RunningServer(app, at_once=1, one_by_one="/block") as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(50)]
        for one in clients:
            one.sendall(GET % b"/block")
        assert app.waiting.acquire(timeout=30)
        assert server.get("/plain")[0] == 200
        assert not app.waiting.acquire(timeout=0.2)
        app.answer.set()
        for one in clients:
            read_until(one, b'{"waited":true}')


def test_a_large_body_is_read_while_it_arrives(app: App) -> None:
    with RunningServer(app, at_once=1, streamed="/upload") as server, server.connect() as client:
        client.sendall(POST % b"/upload" + b"Content-Length: %d\r\n\r\n" % LARGE)
        client.sendall(b"x" * (LARGE - 1))
        assert app.waiting.acquire(timeout=30)
        assert server.get("/plain")[0] == 200, "it takes no thread of other requests"
        client.sendall(b"x")
        read_until(client, b'{"size":%d}' % LARGE)
        client.sendall(POST % b"/upload" + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        read_until(client, b'{"size":3}')


def test_a_large_body_that_is_refused_is_not_kept(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "MAX_DROPPED_BYTES", 1_000_000)
    head = POST % b"/upload?refuse=1" + b"Content-Length: %d\r\n\r\n"
    with RunningServer(app, streamed="/upload") as server, server.connect() as client:
        client.sendall(head % 900_000 + b"x" * 900_000 + GET % b"/plain")
        assert b'{"size":0}' in read_until(client, b'{"size":0}'), "the connection goes on"
        with suppress(OSError):
            client.sendall(head % LARGE + b"x" * LARGE)
        assert b" 401 " in read_until(client, b"refused")


def test_a_body_that_ends_too_early_keeps_no_thread(app: App) -> None:
    with RunningServer(app, streamed="/upload") as server:
        for _ in range(10):
            with server.connect() as client:
                client.sendall(POST % b"/upload" + b"Content-Length: 5000000\r\n\r\n" + b"x" * 2_000_000)
                assert app.waiting.acquire(timeout=30)
            assert app.closed.acquire(timeout=30)
        assert server.get("/plain")[0] == 200


def test_an_event_stream_ends_when_its_client_disconnects(app: App, server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(GET % b"/events")
        read_until(client, b"data: 2\n\n")
    assert app.closed.acquire(timeout=30)


def test_requests_that_wait_for_another_server_do_not_delay_others(app: App, server: RunningServer) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(64)]
        for one in clients:
            one.sendall(GET % b"/wait")
        for _ in clients:
            assert app.waiting.acquire(timeout=30)
        assert server.get("/plain")[0] == 200
        app.answer.set()
        for one in clients:
            read_until(one, b'{"waited":true}')


def test_more_waiting_requests_than_threads_are_all_answered(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "MAX_WAITING", 4)
    with RunningServer(app) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(20)]
        for one in clients:
            one.sendall(GET % b"/wait")
        for _ in range(6):
            assert app.waiting.acquire(timeout=30)
        app.answer.set()
        for one in clients:
            read_until(one, b'{"waited":true}')


def test_health_is_answered_while_all_threads_are_busy(app: App, server: RunningServer) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(10)]
        for one in clients:
            one.sendall(GET % b"/block")
        for _ in range(2):
            assert app.waiting.acquire(timeout=30)
        for path in HEALTH:
            assert server.get(path, timeout=1)[0] == 200
        app.answer.set()
        for one in clients:
            read_until(one, b'{"waited":true}')


def test_clients_that_do_not_read_a_large_response_do_not_delay_others(app: App, server: RunningServer) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(server.connect()).sendall(GET % b"/large")
        for _ in range(3):
            assert server.get("/plain")[0] == 200
        status, body = server.get("/large")
        assert (status, len(body)) == (200, LARGE)
    for _ in range(9):
        assert app.closed.acquire(timeout=30), "every response is closed"


def test_the_application_sees_a_request_as_wsgi_describes_it(server: RunningServer) -> None:
    head = (
        b"POST /environ?a=%C3%A9&b HTTP/1.1\r\nHost: here\r\nX-Two: 1\r\nX-Two: 2\r\nCookie: a=1\r\nCookie: b=2\r\n"
        b"X_Two: forged\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n"
    )
    status, body = server.send(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    seen = json.loads(body)
    assert (status, seen["REQUEST_METHOD"], seen["PATH_INFO"]) == (200, "POST", "/environ")
    assert (seen["QUERY_STRING"], seen["HTTP_HOST"], seen["CONTENT_TYPE"]) == ("a=%C3%A9&b", "here", "text/plain")
    assert (seen["HTTP_X_TWO"], seen["HTTP_COOKIE"], seen["CONTENT_LENGTH"]) == ("1,2", "a=1; b=2", "5")
    assert (seen["REMOTE_ADDR"], seen["SERVER_PORT"]) == ("127.0.0.1", str(server.port))


@pytest.mark.parametrize("path", ["/fail", "/broken", "/exit"])
def test_an_application_that_fails_is_answered_with_a_500(server: RunningServer, path: str) -> None:
    assert server.get(path)[0] == 500
    assert server.get("/plain")[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"X-Large: %s\r\n" % (b"x" * 8_000) * 40 + b"\r\n", 431),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1_000 + b"\r\n", 431),
        (b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 100_000), 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", 400),
        (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    ],
    ids=[
        *("a large head", "not ASCII", "two lengths", "a length and chunks", "not HTTP", "many fields", "a long path"),
        *("a chunk without CR", "a tunnel", "a folded field", "lines without CR"),
    ],
)
def test_a_request_that_is_not_valid_is_refused_with_a_code(
    server: RunningServer, request_: bytes, status: int
) -> None:
    got, body = server.send(request_)
    assert (got, json.loads(body)["code"]) == (
        status,
        {400: "bad_request", 431: "request_header_fields_too_large"}[status],
    )


def test_a_field_after_the_body_is_not_a_header(server: RunningServer) -> None:
    body = b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n"
    status, answer = server.send(POST % b"/environ" + body)
    assert (status, "HTTP_X_FORWARDED_FOR" in json.loads(answer)) == (200, False)


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_body_of_a_request_for_another_protocol_is_not_taken_for_a_request(
    server: RunningServer, pieces: int
) -> None:
    head = POST % b"/plain" + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n"
    body = GET % b"/fail"
    with server.connect() as client:
        for piece in (head % len(body), body) if pieces == 2 else (head % len(body) + body,):
            client.sendall(piece)
        assert b'{"size":%d}' % len(body) in read_until(client, b"}\n")
        client.sendall(GET % b"/plain")
        assert b"200 OK" in read_until(client, b'{"size":0}\n')


def test_requests_sent_at_once_are_answered_in_order_before_what_is_not_valid(server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(GET % b"/plain" + GET % b"/missing" + b"not HTTP\r\n\r\n" + GET % b"/plain")
        got = read_all(client)
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"404"]


def test_a_client_that_sends_too_many_requests_at_once_is_disconnected_after_some(server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(GET % b"/plain" * 1_000)
        assert 1 <= read_all(client).count(b"200 OK") < 1_000


def test_a_client_that_sends_no_more_gets_its_response(app: App, server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(GET % b"/plain" + GET % b"/block")
        client.shutdown(socket.SHUT_WR)
        assert app.waiting.acquire(timeout=30)
        app.answer.set()
        assert read_all(client).endswith(b'{"waited":true}\n')


def test_a_stream_ends_when_a_client_disconnects_that_has_sent_another_request(app: App, server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(GET % b"/events" + GET % b"/plain")
        read_until(client, b"data: 2\n\n")
    assert app.closed.acquire(timeout=30)


def test_an_http_1_0_client_gets_a_length_instead_of_chunks(server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(b"GET /unknown HTTP/1.0\r\n\r\n")
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    assert (b"content-length: 7" in head, b"chunked" in head, body) == (True, False, b"one two")


def test_a_response_that_fails_in_the_middle_is_cut_off_and_closed(app: App, server: RunningServer) -> None:
    assert server.get("/unknown") == (200, b"one two")
    assert app.closed.acquire(timeout=30)
    with server.connect() as client:
        client.sendall(GET % b"/unknown?fail=1")
        assert not read_all(client).endswith(b"0\r\n\r\n")
    assert app.closed.acquire(timeout=30)


def test_a_head_request_has_no_body(server: RunningServer) -> None:
    with server.connect() as client:
        for path in (b"/plain", b"/unknown", b"/broken"):
            client.sendall(b"HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            assert read_until(client, b"\r\n\r\n").endswith(b"\r\n\r\n")
        client.sendall(GET % b"/plain")
        assert read_until(client, b"}\n").startswith(b"HTTP/1.1 200")


def test_a_length_that_is_given_late_is_sent_once(server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(GET % b"/late")
        assert read_until(client, b"late").lower().count(b"content-length") == 1


def test_a_client_that_waits_for_permission_to_send_its_body_gets_it(server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(POST % b"/plain" + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert read_until(client, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert b'{"size":3}' in read_until(client, b"}\n")


def test_no_response_names_the_server(server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(GET % b"/plain" + b"x")
        assert b"server:" not in read_all(client).lower()


def test_requests_under_way_are_finished_when_the_server_stops(app: App, server: RunningServer) -> None:
    with server.connect() as idle, server.connect() as busy:
        busy.sendall(GET % b"/block")
        assert app.waiting.acquire(timeout=30)
        server.begin_stop()
        assert idle.recv(1) == b""
        app.answer.set()
        assert b"connection: close" in read_until(busy, b'{"waited":true}')


def test_a_large_body_is_received_completely_and_a_larger_one_is_refused(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "MAX_BODY_BYTES", 1_000_000)
    head = b"POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    assert server.send(head % 900_000 + b"x" * 900_000) == (200, b'{"size":900000}\n')
    assert server.send(head % 3_000_000 + b"x" * 3_000_000)[0] == 413


def test_bodies_beyond_the_memory_for_them_are_refused_for_now(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "MAX_MEMORY_BYTES", 200_000)
    head = b"POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with server.connect() as slow:
        slow.sendall(head % 190_000 + b"x" * 180_000)
        large = head % 150_000 + b"x" * 150_000
        until(lambda: server.send(large)[0] == 503)
        assert server.send(head % 50_000 + b"x" * 50_000)[0] == 200, "small ones do not count"
    until(lambda: server.send(large)[0] == 200)


def test_bodies_keep_their_memory_until_they_are_answered(
    app: App, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "MAX_MEMORY_BYTES", 200_000)
    body = b"Content-Length: 150000\r\n\r\n" + b"x" * 150_000
    with server.connect() as busy:
        busy.sendall(POST % b"/block" + body)
        assert app.waiting.acquire(timeout=30)
        assert server.send(POST % b"/plain" + body)[0] == 503
        app.answer.set()
        read_until(busy, b'{"waited":true}')
    assert server.send(POST % b"/plain" + body)[0] == 200


def test_clients_that_take_too_long_are_disconnected(app: App) -> None:
    limits = ConnectionLimits(head_seconds=0.2, idle_seconds=0.2, unread_seconds=0.2)
    with RunningServer(app, limits=limits) as server, server.connect() as silent, server.connect() as unread:
        unread.sendall(GET % b"/large")
        body = b"POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"
        status, answer = server.send(body)
        assert (status, json.loads(answer)["code"]) == (408, "body_timeout")
        assert silent.recv(100) == b""
        assert app.closed.acquire(timeout=30), "the response that was not read is closed"


def test_the_longest_idle_connection_makes_room_for_another(app: App) -> None:
    with RunningServer(app, limits=ConnectionLimits(connections=4)) as server, ExitStack() as stack:
        clients = []
        for _ in range(5):
            clients.append(stack.enter_context(server.connect()))
            clients[-1].sendall(GET % b"/plain")
            read_until(clients[-1], b"}\n")
        with suppress(ConnectionResetError):
            assert clients[0].recv(1) == b""
        clients[-1].sendall(GET % b"/plain")
        read_until(clients[-1], b"}\n")


def until(condition: Callable[[], bool]) -> None:
    """Repeat until the condition is true."""
    for _ in range(200):
        if condition():
            return
    raise AssertionError("never")
