"""A server as a child process: started with its log in a file, looked at, and ended for certain."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import requests

SECONDS_TO_STOP = 10.0
SECONDS_BETWEEN_LOOKS = 0.2
LAST_LINES = 12
# It notes its number itself before it becomes the server: whoever starts it may be killed before they know it.
NOTED = ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"')


@dataclass
class Child:
    """One server on this machine; nothing of it is left after `stop`, which waits so long before it kills.

    With a `pid_file`, whoever starts it again after our own process was killed ends the one that was left behind.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    log_file: Path
    pid_file: Path | None = None
    seconds_to_stop: float = SECONDS_TO_STOP
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it; what it says goes to its log."""
        self.end_leftover()
        noted = () if self.pid_file is None else (*NOTED, str(self.pid_file.resolve()))
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*noted, *self.command],
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
                process.wait(self.seconds_to_stop)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        process.wait()
        if self.pid_file is not None:
            self.pid_file.unlink(missing_ok=True)

    def end_leftover(self) -> None:
        """Ends the one that a process of ours started before it was killed; nothing that only has its number."""
        if self.lives or self.pid_file is None or not self.pid_file.is_file():
            return
        pid = self.pid_file.read_text(encoding="ascii").strip()
        if pid.isdecimal() and self._is_ours(pid):
            for how in (signal.SIGTERM, signal.SIGKILL):
                _end(pid, how, self.seconds_to_stop)
        self.pid_file.unlink(missing_ok=True)

    def log(self) -> str:
        """What it said so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def last_words(self) -> str:
        """The end of its log, for people."""
        return "\n".join(f"  {line}" for line in self.log().splitlines()[-LAST_LINES:])

    def _is_ours(self, pid: str) -> bool:
        """Whether the process of that number runs this very command."""
        look = ["ps", "-ww", "-o", "args=", "-p", pid]
        told = subprocess.run(look, stdout=subprocess.PIPE, text=True, check=False)
        return told.stdout.strip() == " ".join(self.command)


def _end(group: str, how: signal.Signals, seconds: float) -> None:
    """Tells a process group to end, if any of it is left, and waits until none is, but not longer than so."""
    deadline = time.monotonic() + seconds
    if _has_members(group):
        with suppress(ProcessLookupError):
            os.killpg(int(group), how)
    while _has_members(group) and time.monotonic() < deadline:
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _has_members(group: str) -> bool:
    """Whether anything of a process group is left that could hold a port: a command's name is gone before its sockets.

    Nothing of a zombie is left but its number, unless other threads of it are still on their way out.
    """
    look = ["ps", "-ax", "-o", "pgid=,stat="]
    told = subprocess.run(look, stdout=subprocess.PIPE, text=True, check=False)
    states = [state for one, state in map(str.split, told.stdout.splitlines()) if one == group]
    return any(not state.startswith("Z") or "l" in state for state in states)


def is_up(url: str) -> bool:
    """Whether a server on this machine says that it is well."""
    with requests.Session() as session:
        session.trust_env = False  # a proxy knows nothing of this machine's ports
        try:
            return session.get(f"{url}/health", timeout=2).ok
        except requests.RequestException:
            return False
