"""The demo as its owner runs it: one command in a process of its own, whose servers can be looked at and killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

PROGRAM = str(Path(sys.executable).parent / "outfox")
SECONDS_TO_START = 600
SECONDS_TO_WAIT = 180
# A round is over when so many examples fooled the model and were verified.
EXAMPLES = 3


@dataclass(frozen=True)
class RunningDemo:
    """A demo that is ready, and what it printed."""

    process: "subprocess.Popen[str]"
    ready: dict[str, Any]

    @property
    def config(self) -> Path:
        return Path(self.ready["config"])

    @property
    def addresses(self) -> dict[str, str]:
        """The settings that it keeps."""
        return tomllib.loads(self.config.read_text(encoding="utf-8"))

    def outfox(self, *arguments: str) -> Any:
        """What a command says about it."""
        return about(self.config, *arguments)

    def kill(self, name: str) -> None:
        """One of its servers is gone at once, as when memory runs out; and is started again."""
        gone = self._pid(name)
        assert gone is not None, f"{name} does not run"
        os.kill(gone, signal.SIGKILL)
        until(lambda: self._pid(name) not in (None, gone))

    def _pid(self, name: str) -> int | None:
        """The process that one of its servers was last started as; None just before it is started again."""
        try:
            return int((self.config.parent / f"{name}.pid").read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None


@contextmanager
def running_demo(home: Path, port: int) -> Iterator[RunningDemo]:
    """A demo that is ready; it ends with the block at the latest."""
    with subprocess.Popen(command(home, port), stdout=subprocess.PIPE, text=True) as process:
        # A demo that never gets ready must end, or reading its output would wait for ever.
        watchdog = threading.Timer(SECONDS_TO_START, process.terminate)
        watchdog.start()
        try:
            ready = _first_document(process)
            watchdog.cancel()
            assert ready, "the demo ended before it was ready"
            yield RunningDemo(process, ready)
        finally:
            watchdog.cancel()
            process.terminate()


def command(home: Path, port: int, *more: object) -> list[str]:
    """The command that starts a demo with tiny rounds."""
    options = ["--port", port, "--examples", EXAMPLES, "--json", *more]
    return [PROGRAM, "--home", str(home), "demo", *map(str, options)]


def about(config: Path, *arguments: str) -> Any:
    """What a command says about the demo whose settings are in the file."""
    ran = subprocess.run([PROGRAM, "--config", str(config), *arguments, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)


def is_up(url: str) -> bool:
    """Whether somebody answers there."""
    try:
        return requests.get(f"{url}/health", timeout=5).ok
    except requests.RequestException:
        return False


def until(is_so: Callable[[], object], seconds: float = SECONDS_TO_WAIT) -> None:
    """Waits until it is so; a failure where it never is."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def _first_document(process: "subprocess.Popen[str]") -> dict[str, Any]:
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            break
    found: dict[str, Any] = json.loads("".join(lines)) if lines else {}
    return found
