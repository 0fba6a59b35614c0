import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from plugin.local_server import free_port
from plugin.simulation.errors import SiteTrouble, Stopped
from plugin.simulation.line import PATIENCE, Line

AT_ONCE = (0.0,)


@contextmanager
def _server(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[str]]]:
    """Gives these answers, the last one again and again; who asked for what is noted."""
    left, heard = list(answers), list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(f"{self.path} {self.headers.get('Authorization', '')}".rstrip())
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
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()


def test_a_server_that_is_away_or_asks_for_patience_is_asked_again() -> None:
    with _server((503, b"away"), (429, b"slow down"), (200, b'{"fooled": true}')) as (url, heard):
        line = Line(threading.Event(), AT_ONCE)
        assert line.call("POST", f"{url}/work/tries", "token", {}) == {"fooled": True}
    assert heard == ["/work/tries Bearer token"] * 3


def test_a_refusal_is_told_in_the_servers_words_and_not_asked_again() -> None:
    refusal = (409, b'{"error": "Nothing for you.", "retry": false}')
    line = Line(threading.Event(), AT_ONCE)
    with _server(refusal) as (url, heard), pytest.raises(SiteTrouble, match=r"Nothing for you\.") as caught:
        line.call("POST", f"{url}/work/finish", "token", {})
    assert not caught.value.retry
    assert len(heard) == 1


def test_an_answer_that_was_lost_is_remembered_once() -> None:
    line = Line(threading.Event(), AT_ONCE)
    with pytest.raises(SiteTrouble, match="does not answer"):
        line.send(f"http://127.0.0.1:{free_port()}/groups/G1/accept", {})
    assert (line.forget_trouble(), line.forget_trouble()) == (True, False)


def test_patience_ends() -> None:
    with _server((500, b"broken")) as (url, heard), pytest.raises(SiteTrouble) as caught:
        Line(threading.Event(), AT_ONCE).send(url, {})
    assert caught.value.retry
    assert len(heard) == PATIENCE


def test_whoever_is_told_to_end_asks_nobody_any_more() -> None:
    stop = threading.Event()
    stop.set()
    with _server((200, b"{}")) as (url, heard), pytest.raises(Stopped):
        Line(stop).send(url, {})
    assert heard == []
