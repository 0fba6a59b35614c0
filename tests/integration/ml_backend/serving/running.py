"""Start a backend process, send it requests, and stop it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from ml_backend.serving.outbox import read_state
from tests.fakes import backend_program

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 60.0


def wait_for(condition: Callable[[], Any], what: str, process: subprocess.Popen[bytes] | None = None) -> Any:
    """Wait for the condition; return its first true value."""
    end = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        assert process is None or process.poll() is None, f"the backend ended before: {what}"
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


class Answer:
    """An HTTP response."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Running:
    """A backend process and its folder."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], log: Path) -> None:
        self.folder = folder
        self.process = process
        self.log = log
        self.port = 0

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request on a new connection, as Label Studio does."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, raw, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def predict(self, task: str, body: Any, **headers: str) -> Answer:
        return self.request("POST", f"/tasks/{task}/predict", body, **headers)

    def status(self) -> Any:
        return self.request("GET", "/status").json

    def workers(self) -> list[int]:
        """Return the process ids of the running workers."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(one) for one in path.read_text(encoding="ascii").split() if int(one) != self.forwarder()]

    def forwarder(self) -> int:
        """Return the process id of the forwarder; 0 before it has started."""
        return read_state(self.folder / "outbox").process

    def shared_folder(self) -> Path:
        """Return the folder that its processes share."""
        return Path(wait_for(self._shared, "figures are shared", self.process)[1])

    def _shared(self) -> re.Match[str] | None:
        maps = "".join(Path(f"/proc/{one}/maps").read_text(encoding="utf-8") for one in self.workers())
        return re.search(r"(/\S*/outfox-backend-[^/\s]+)/", maps)

    def hold(self) -> Path:
        path = self.folder / "hold"
        path.touch()
        return path

    def events(self) -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def delivered(self) -> list[dict[str, Any]]:
        path = self.folder / "delivered.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()] if path.exists() else []

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it, wait, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    """Run a backend until the end of the block."""
    folder.mkdir(exist_ok=True)
    log = folder / f"log-{len(list(folder.glob('log-*')))}"
    arguments = [sys.executable, backend_program.__file__, json.dumps({"folder": str(folder), **settings})]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out, env=environment, start_new_session=True)
    found = Running(folder, process, log)
    try:
        address = wait_for(
            lambda: [one["at"] for one in found.events() if one["event"] == "serving"], "serving", process
        )
        found.port = int(address[0].rpartition(":")[2])
        wait_for(found.forwarder, "a forwarder", process)
        wait_for(lambda: len(found.workers()) == settings.get("workers", 1), "workers", process)
        wait_for(lambda: found.request("GET", "/health").status == 200, "health", process)
        yield found
    finally:
        (folder / "hold").unlink(missing_ok=True)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
