"""A server of archives that damages the files it sends."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# Makes the body and additional headers of an answer from a file's bytes.
Damage = Callable[[bytes], tuple[bytes, dict[str, str]]]


def intact(content: bytes) -> tuple[bytes, dict[str, str]]:
    return content, {}


def last_byte_changed(content: bytes) -> tuple[bytes, dict[str, str]]:
    return content[:-1] + bytes([content[-1] ^ 255]), {}


def labelled_as_gzip(content: bytes) -> tuple[bytes, dict[str, str]]:
    return content, {"Content-Encoding": "gzip"}


@dataclass
class CorruptingServer:
    """Its address, the damage to the next tables (the last one applies to all that follow), and the requests it got."""

    url: str = ""
    damage: list[Damage] = field(default_factory=lambda: [intact])
    requested: list[str] = field(default_factory=list)
    listing: bytes = b""


@contextmanager
def corrupting_server(archives: Path) -> Iterator[CorruptingServer]:
    """Serve the first round of sentiment until the end of the block."""
    folder = archives / "sentiment" / "round-1"
    manifest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    listing = json.dumps({"rounds": [{"round": 1, "manifest_sha256": manifest}]}).encode()
    state = CorruptingServer(listing=listing)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            state.requested.append(name)
            content = state.listing if name == "sentiment" else (folder / name).read_bytes()
            headers: dict[str, str] = {}
            if name.endswith(".parquet"):
                damage = state.damage.pop(0) if len(state.damage) > 1 else state.damage[0]
                content, headers = damage(content)
            self.send_response(200)
            for header, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
