"""A proxy in front of a real Label Studio: it counts requests, and can be slow, broken or unreachable."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

SAFE = ("GET", "HEAD", "OPTIONS")
DROPPED = {"connection", "transfer-encoding", "content-encoding", "content-length", "keep-alive", "host"}


@dataclass
class Proxy:
    """The proxy's URL, its recorded requests and its faults."""

    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    # Answer with this HTTP status instead of forwarding the request.
    broken: int | None = None
    # Forward the request, then answer with this status: Label Studio has done what was requested.
    lost_answers: int | None = None
    # Hold every request until this is set.
    hold: threading.Event | None = None

    @property
    def changing(self) -> list[tuple[str, str]]:
        """Return the requests that change something."""
        return [one for one in self.requests if one[0] not in SAFE]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy
    target: str

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_PATCH(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""

    def _pass_on(self) -> None:
        proxy = self.proxy
        proxy.requests.append((self.command, self.path.partition("?")[0]))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if proxy.hold is not None:
            proxy.hold.wait(30)
        if proxy.broken is not None:
            self._answer(proxy.broken, b"<html>Bad gateway</html>", "text/html")
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
        try:
            answer = requests.request(self.command, f"{self.target}{self.path}", headers=headers, data=body, timeout=60)
        except requests.RequestException:
            self.close_connection = True
            return
        if proxy.lost_answers is not None:
            self._answer(proxy.lost_answers, b"", "text/plain")
            return
        self._answer(answer.status_code, answer.content, answer.headers.get("Content-Type", "text/plain"))

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client has disconnected


@contextmanager
def proxy_of(target: str) -> Iterator[Proxy]:
    """Run a proxy on this machine until the end of the block."""
    proxy = Proxy()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy, "target": target}))
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield proxy
    finally:
        if proxy.hold is not None:
            proxy.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
