"""`make bench-drip`: how much slow clients delay others, on the web app, the ML backend and the marketplace.

500 connections to one server send a byte per second each, half of them in a request's head and half in a body. Ordinary
requests are sent at a fixed pace, with and without the slow clients, in turns. All of it stays on this machine. The ML
backend runs with models that answer at once. The last line is one JSON object.
"""

import argparse
import http.client
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugin.cli.output import console, table
from plugin.settings import Settings
from round_manager.database.store import open_store
from templates import find_pack
from tests.bench.crashing.place import marketplace
from tests.fakes import calls
from tests.fakes.slow_clients import HOST, MOST, SlowClients
from tests.integration.ml_backend.serving.running import running
from tests.integration.plugin.web.serving import serving

CONNECTIONS = 500
TURNS = 3
SECONDS = 8.0
PACE_SECONDS = 0.01
# A request without an answer after this time counts as failed, with this time.
PATIENCE = 5.0
MOST_RATIO = 2.0


@dataclass
class Server:
    """A running server: where slow clients send bodies, and an ordinary request."""

    name: str
    port: int
    slow_path: str
    method: str
    path: str
    body: bytes = b""
    quiet: list[float] = field(default_factory=list)
    slow: list[float] = field(default_factory=list)
    failed: int = 0

    def ask(self) -> float:
        """Send an ordinary request on a new connection; return the seconds it took."""
        began = time.perf_counter()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE)
        try:
            connection.request(self.method, self.path, self.body or None, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            self.failed += response.status != http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            self.failed += 1
            return PATIENCE
        finally:
            connection.close()
        return time.perf_counter() - began

    def measure(self, seconds: float) -> list[float]:
        """Send ordinary requests at a fixed pace; return the seconds that each took."""
        times: list[float] = []
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            times.append(self.ask())
            time.sleep(max(0.0, now + PACE_SECONDS - time.monotonic()))
        return times


def main() -> None:
    """Measure the servers one after the other."""
    options = argparse.ArgumentParser()
    options.add_argument("--connections", type=int, choices=range(1, MOST + 1), metavar="N", default=CONNECTIONS)
    options.add_argument("--turns", type=int, choices=range(1, 100), metavar="N", default=TURNS)
    options.add_argument("--seconds", type=float, default=SECONDS, help="per turn, at most 60")
    given = options.parse_args()
    measured = [_measured(one, given.connections, given.turns, min(given.seconds, 60.0)) for one in _servers()]
    columns = (
        "server",
        "requests",
        "failed",
        "p50 ms",
        "p99 ms",
        f"p50 ms with {given.connections}",
        "p99 ms",
        "ratio",
    )
    rows = [
        [
            one.name,
            len(one.quiet) + len(one.slow),
            one.failed,
            *(f"{_share(times, percent) * 1_000:.2f}" for times in (one.quiet, one.slow) for percent in (50, 99)),
            f"{_ratio(one):.2f}",
        ]
        for one in measured
    ]
    console().print(table(columns, rows))
    print(json.dumps({"p99_ratio": {one.name: round(_ratio(one), 2) for one in measured}}))
    if any(one.failed or _ratio(one) > MOST_RATIO for one in measured):
        sys.exit(1)


def _servers() -> Iterator[Server]:
    """Start one server at a time, until the next is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = Settings(home=str(home), database_url=f"sqlite:///{home / 'outfox.db'}", secret="s" * 40)
        open_store(settings.database_url, upgrade=True).close()
        with serving(settings) as web:
            yield Server("web", web.port, "/api/attempts", "GET", "/health")
        pack = find_pack("sentiment")
        body = json.dumps(calls.predict(pack, calls.writes(pack, "It looks negative."))).encode()
        with running(home / "backend") as backend:
            path = "/tasks/sentiment/predict"
            yield Server("ml_backend", backend.port, path, "POST", path, body)
        with marketplace(home) as place:
            yield Server("marketplace", int(urlsplit(place.url).port or 0), "/mturk/externalSubmit", "GET", "/health")


def _measured(server: Server, connections: int, turns: int, seconds: float) -> Server:
    server.measure(1.0)
    server.failed = 0
    for _ in range(turns):
        server.quiet += server.measure(seconds)
        with _slow_clients(server, connections):
            server.slow += server.measure(seconds)
    return server


@contextmanager
def _slow_clients(server: Server, connections: int) -> Iterator[None]:
    """Keep slow clients in another process, so that they do not delay the measurement themselves."""
    context = multiprocessing.get_context("spawn")
    opened, end = context.Event(), context.Event()
    process = context.Process(target=_drip, args=(server.port, connections, server.slow_path, opened, end))
    process.start()
    try:
        if not opened.wait(60):
            raise SystemExit("the slow clients could not connect")
        yield
    finally:
        end.set()
        process.join()


def _drip(port: int, connections: int, path: str, opened: Event, end: Event) -> None:
    with SlowClients(port, connections, path):
        opened.set()
        end.wait(120)


def _share(times: list[float], percent: int) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * percent // 100)]


def _ratio(server: Server) -> float:
    return _share(server.slow, 99) / _share(server.quiet, 99)


if __name__ == "__main__":
    main()
