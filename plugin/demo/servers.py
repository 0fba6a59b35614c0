"""The demo's servers: started in parallel, watched, and restarted if one exits."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.progress import Progress
from plugin.demo.home import DemoHome, port_of
from plugin.errors import PluginError
from plugin.labelstudio.server import LabelStudioServer
from plugin.server_process import ServerProcess, is_up

SECONDS_TO_START = 120.0
POLL_SECONDS = 0.1
# The manager waits for a training that it stops.
SECONDS_TO_STOP = 45.0
# The longest delay before a server that keeps failing is restarted.
MAX_BACKOFF = 60.0
# A server that fails this often before it responds is broken.
MAX_START_FAILURES = 3
PROGRAM = "from plugin.cli import main; main()"

Report = Callable[[str], None]


class DemoServerFailed(PluginError):
    """A server of the demo does not start."""

    code = "demo_server_start_failed"


@dataclass
class Server:
    """One of our own commands; without an address, it serves no requests. `auth` is what its health check requires."""

    name: str
    child: ServerProcess
    url: str = ""
    auth: tuple[str, str] | None = None
    failures: int = 0
    restart_at: float = 0.0
    since: float = 0.0
    wanted: bool = False

    def start(self) -> None:
        """Start the server; from now on it is restarted if it exits."""
        self.wanted = True
        self.child.start()

    def stop(self) -> None:
        """Stop the server."""
        self.wanted = False
        self.child.stop()

    def wait(self, progress: Progress) -> None:
        """Wait until the server responds; DemoServerFailed with the end of its log if it does not."""
        deadline = time.monotonic() + SECONDS_TO_START
        progress.start(0, f"Starting {self.name}")
        while not is_up(self.url, self.auth):
            self.check_start(deadline)
            progress.advance(0, "")
            time.sleep(POLL_SECONDS)
        progress.finish()

    def check_start(self, deadline: float) -> None:
        """Restart the server if it exited; DemoServerFailed if it keeps failing or the deadline has passed."""
        now = time.monotonic()
        self.check(now, lambda _: None)
        if now > deadline or self.failures >= MAX_START_FAILURES:
            raise DemoServerFailed(f"{self.name} does not start; the end of its log:\n{self.child.last_words()}")

    def check(self, now: float, report: Report) -> None:
        """Report that the server exited, and restart it, with a growing delay."""
        if not self.wanted or self.child.lives:
            return
        if not self.restart_at:
            if now - self.since > MAX_BACKOFF:
                self.failures = 0  # It ran for a while, so it does not fail at every start.
            delay = min(MAX_BACKOFF, 2.0**self.failures - 1)
            self.failures += 1
            self.restart_at = now + delay
            report(f"{self.name} exited and is restarted; the end of its log:\n{self.child.last_words()}")
        if now >= self.restart_at:
            self.restart_at, self.since = 0.0, now
            # Its child processes must not keep the port.
            self.child.stop()
            self.child.start()


def demo_server(
    home: DemoHome, name: str, *arguments: str, url: str = "", auth: tuple[str, str] | None = None
) -> Server:
    """Return one of our commands as a server, not started; its log is in the demo's home."""
    port = ["--port", str(port_of(url))] if url else []
    # -P: do not import modules from the current folder.
    command = [sys.executable, "-P", "-c", PROGRAM, name, *port, *arguments]
    log, pid = (home.folder / f"{name}.{what}" for what in ("log", "pid"))
    return Server(name, ServerProcess(command, home.environment(), home.folder, log, pid, SECONDS_TO_STOP), url, auth)


class LabelStudioStart:
    """Starts Label Studio in a thread, because it takes half a minute; `wait` raises its error."""

    def __init__(self, server: LabelStudioServer) -> None:
        self._server = server
        self._stage = "Label Studio is starting"
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="label-studio-start", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the start succeeded or failed."""
        return not self._thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        """Why the start failed."""
        return self._error

    def wait(self, progress: Progress) -> None:
        """Wait until Label Studio responds."""
        progress.start(0, "Starting Label Studio (half a minute the first time)")
        while not self.is_over:
            self._thread.join(POLL_SECONDS)
            progress.advance(0, self._stage)
        if self._error is not None:
            raise self._error
        progress.finish()

    def cancel(self) -> None:
        """Stop the start, because another part of the demo failed."""
        self._server.stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.start(self._set_stage)
        except Exception as error:  # noqa: BLE001 - the edge of a thread: `wait` raises it
            self._error = error

    def _set_stage(self, stage: str, _seconds: float) -> None:
        self._stage = stage


class Watch:
    """Restarts servers that exit; `report` gets a message for each."""

    def __init__(self, studio: LabelStudioServer, servers: Sequence[Server], report: Report) -> None:
        self._studio = studio
        self._servers = servers
        self._report = report
        self._starting: LabelStudioStart | None = None

    def check(self) -> None:
        """Check all servers once."""
        for server in self._servers:
            server.check(time.monotonic(), self._report)
        self._check_label_studio()

    def _check_label_studio(self) -> None:
        if self._starting is not None:
            if not self._starting.is_over:
                return
            if self._starting.error is not None:
                self._report(f"Label Studio does not start: {self._starting.error}")
            self._starting = None
        if not self._studio.is_running:
            self._report("Label Studio exited and is restarted")
            self._studio.stop()
            self._starting = LabelStudioStart(self._studio)
