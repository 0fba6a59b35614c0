"""A server as a child process: started with its log in a file, looked at, and ended for certain."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import requests

SECONDS_TO_STOP = 10.0
LAST_LINES = 12


@dataclass
class Child:
    """One server on this machine; nothing of it is left after `stop`."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    log_file: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it; what it says goes to its log."""
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                list(self.command),
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A process group of its own: ended whole, and not by the Ctrl-C that our own process gets.
                start_new_session=True,
            )

    def stop(self) -> None:
        """Ends it and everything that it started; does nothing when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, how)
                process.wait(SECONDS_TO_STOP)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        process.wait()

    def log(self) -> str:
        """What it said so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def last_words(self) -> str:
        """The end of its log, for people."""
        return "\n".join(f"  {line}" for line in self.log().splitlines()[-LAST_LINES:])


def is_up(url: str) -> bool:
    """Whether a server on this machine says that it is well."""
    with requests.Session() as session:
        session.trust_env = False  # a proxy knows nothing of this machine's ports
        try:
            return session.get(f"{url}/health", timeout=2).ok
        except requests.RequestException:
            return False
