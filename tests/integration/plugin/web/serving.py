"""`outfox serve` as a separate process."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from plugin.settings import Settings

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 60.0
PROGRAM = "from plugin.cli import main; main()"


@dataclass(frozen=True)
class Serving:
    """The process and where it answers."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def workers(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(one) for one in path.read_text(encoding="ascii").split()]

    def events(self) -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def kill_all(self) -> None:
        """Kill master and workers at once, as the kernel does when memory runs out."""
        maps = Path(f"/proc/{self.workers()[0]}/maps").read_text(encoding="utf-8")
        shared = re.search(r"(/\S*/outfox-web-[^/\s]+)/", maps)
        for pid in [self.process.pid, *self.workers()]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        if shared:  # The process is gone; remove what it left.
            shutil.rmtree(shared[1])


@contextmanager
def serving(settings: Settings, *arguments: str, port: int = 0) -> Iterator[Serving]:
    """The web app, answering, until the end of the block."""
    log = settings.home_path / f"serve-{time.monotonic_ns()}.log"
    chosen = {f"OUTFOX_{name.upper()}": str(value) for name, value in settings.model_dump().items()}
    ours = {**chosen, "OUTFOX_LOG_FORMAT": "json"}
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", str(port), *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **ours, "PYTHONPATH": str(ROOT)}, start_new_session=True
        )
    try:
        yield Serving(process, _port(process, log), log)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    end = time.monotonic() + PATIENCE
    while True:
        found = re.search(r"serving at http://127\.0\.0\.1:(\d+)", log.read_text(encoding="utf-8"))
        if found and _answers(int(found[1])):
            return int(found[1])
        assert process.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < end, "the web app does not answer"
        time.sleep(0.02)


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
