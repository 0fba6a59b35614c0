"""A proxy between the client and a server that cuts answers off, or answers with an error status."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PASSED_ON = ("Authorization", "Range", "If-Range")


@dataclass
class CuttingProxy:
    """Its address, what happens to the next answers, and the requests it got."""

    url: str = ""
    # For each of the next files, how many bytes pass; a negative number is an error status.
    plan: list[int] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def cutting_proxy(target: str) -> Iterator[CuttingProxy]:
    """Run a proxy of the server at an address until the end of the block."""
    proxy, there = CuttingProxy(), urlsplit(target).netloc

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            proxy.asked.append((self.path.rpartition("/")[2], self.headers.get("Range", "")))
            limit = proxy.plan.pop(0) if proxy.plan and "/rounds/" in self.path else None
            if limit is not None and limit < 0:
                self.send_error(-limit)
                return
            connection = HTTPConnection(there, timeout=30)
            connection.request("GET", self.path, headers={k: self.headers[k] for k in PASSED_ON if k in self.headers})
            answer = connection.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() in ("content-length", "content-range", "etag"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:limit])
            connection.close()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
