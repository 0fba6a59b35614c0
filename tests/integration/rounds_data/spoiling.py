"""A server of archives in a folder whose files do not arrive as they are there."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# What becomes of a file's bytes, and the headers that go with them.
Fate = Callable[[bytes], tuple[bytes, dict[str, str]]]


def as_it_is(content: bytes) -> tuple[bytes, dict[str, str]]:
    return content, {}


def with_another_byte(content: bytes) -> tuple[bytes, dict[str, str]]:
    return content[:-1] + bytes([content[-1] ^ 255]), {}


def as_no_gzip(content: bytes) -> tuple[bytes, dict[str, str]]:
    return content, {"Content-Encoding": "gzip"}


@dataclass
class SpoilingServer:
    """Where it is, what becomes of the next tables (of those after them, the last fate), and what it was asked for."""

    url: str = ""
    fates: list[Fate] = field(default_factory=lambda: [as_it_is])
    asked: list[str] = field(default_factory=list)
    listing: bytes = b""


@contextmanager
def spoiling_server(archives: Path) -> Iterator[SpoilingServer]:
    """Serves the first round of sentiment, until the end of the block."""
    folder = archives / "sentiment" / "round-1"
    manifest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    listing = json.dumps({"rounds": [{"round": 1, "manifest_sha256": manifest}]}).encode()
    spoiler = SpoilingServer(listing=listing)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            spoiler.asked.append(name)
            content = spoiler.listing if name == "sentiment" else (folder / name).read_bytes()
            headers: dict[str, str] = {}
            if name.endswith(".parquet"):
                fate = spoiler.fates.pop(0) if len(spoiler.fates) > 1 else spoiler.fates[0]
                content, headers = fate(content)
            self.send_response(200)
            for header, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    spoiler.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield spoiler
    finally:
        server.shutdown()
        server.server_close()
