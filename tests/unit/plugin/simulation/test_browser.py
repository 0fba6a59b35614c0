import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from plugin.server_process import free_port
from plugin.simulation.browser import MAX_ATTEMPTS, Browser, SimulationPageError, SimulationStopped

NO_DELAY = (0.0,)


@contextmanager
def _server(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[str]]]:
    """Give these answers, the last one repeatedly; record each request."""
    left, requests = list(answers), list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(f"{self.path} {self.headers.get('Authorization', '')}".rstrip())
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def test_an_unavailable_or_busy_server_is_asked_again() -> None:
    with _server((503, b"away"), (429, b"slow down"), (200, b'{"fooled": true}')) as (url, requests):
        browser = Browser(threading.Event(), NO_DELAY)
        assert browser.call("POST", f"{url}/work/tries", "token", {}) == {"fooled": True}
    assert requests == ["/work/tries Bearer token"] * 3


def test_a_refusal_carries_the_servers_message_and_is_not_retried() -> None:
    refusal = (409, b'{"error": "Nothing for you.", "retry": false}')
    browser = Browser(threading.Event(), NO_DELAY)
    with _server(refusal) as (url, requests), pytest.raises(SimulationPageError, match=r"Nothing for you\.") as caught:
        browser.call("POST", f"{url}/work/finish", "token", {})
    assert not caught.value.retry
    assert len(requests) == 1


def test_a_lost_answer_is_reported_once() -> None:
    browser = Browser(threading.Event(), NO_DELAY)
    with pytest.raises(SimulationPageError) as caught:
        browser.send(f"http://127.0.0.1:{free_port()}/groups/G1/accept", {})
    assert caught.value.retry
    assert (browser.take_lost_answer(), browser.take_lost_answer()) == (True, False)


def test_the_number_of_attempts_is_limited() -> None:
    with _server((500, b"broken")) as (url, requests), pytest.raises(SimulationPageError) as caught:
        Browser(threading.Event(), NO_DELAY).send(url, {})
    assert caught.value.retry
    assert len(requests) == MAX_ATTEMPTS


def test_a_stopped_browser_sends_nothing() -> None:
    stop = threading.Event()
    stop.set()
    with _server((200, b"{}")) as (url, requests), pytest.raises(SimulationStopped):
        Browser(stop).send(url, {})
    assert requests == []
