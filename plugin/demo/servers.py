"""The demo's servers: started beside each other, watched, and started again where one dies."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plugin.child import Child, is_up
from plugin.demo.place import DemoPlace, port_of
from plugin.demo.studio import StartingStudio
from plugin.errors import PluginError
from plugin.labelstudio.server import LabelStudioServer
from round_manager.progress import Progress

SECONDS_TO_START = 120.0
SECONDS_BETWEEN_LOOKS = 0.1
# The manager waits for a training that it ends.
SECONDS_TO_STOP = 45.0
# One that dies again at once rests longer and longer, up to this.
LONGEST_REST = 60.0
# One that dies so often before it has answered once is broken.
MOST_DEATHS_AT_START = 3
PROGRAM = "from plugin.cli import main; main()"

Tell = Callable[[str], None]


@dataclass
class Server:
    """One of our own commands; without an address it is one that nobody calls."""

    name: str
    child: Child
    url: str = ""
    deaths: int = 0
    again_at: float = 0.0
    since: float = 0.0
    wanted: bool = False

    def start(self) -> None:
        """Starts it; from now on it is missed when it dies."""
        self.wanted = True
        self.child.start()

    def stop(self) -> None:
        """Ends it."""
        self.wanted = False
        self.child.stop()

    def wait(self, progress: Progress) -> None:
        """Until it answers; a PluginError with its last words where it does not."""
        deadline = time.monotonic() + SECONDS_TO_START
        progress.start(0, f"{self.name} starts")
        while not is_up(self.url):
            self.check_start(deadline)
            progress.advance(0, "")
            time.sleep(SECONDS_BETWEEN_LOOKS)
        progress.finish()

    def check_start(self, deadline: float) -> None:
        """Starts it again where it died, for it may have been killed; a PluginError where that or waiting is no use."""
        now = time.monotonic()
        self.look(now, lambda _: None)
        if now > deadline or self.deaths >= MOST_DEATHS_AT_START:
            raise PluginError(f"{self.name} does not come up; the end of its log:\n{self.child.last_words()}")

    def look(self, now: float, tell: Tell) -> None:
        """Tells when it has died, and starts it again, the later the more often it died."""
        if not self.wanted or self.child.lives:
            return
        if not self.again_at:
            if now - self.since > LONGEST_REST:
                self.deaths = 0  # It was well for a while: what killed it is no fault that comes with every start.
            rest = min(LONGEST_REST, 2.0**self.deaths - 1)
            self.deaths += 1
            self.again_at = now + rest
            tell(f"{self.name} has died and is started again; the end of its log:\n{self.child.last_words()}")
        if now >= self.again_at:
            self.again_at, self.since = 0.0, now
            # What it had started itself must not keep its place.
            self.child.stop()
            self.child.start()


def our_server(place: DemoPlace, name: str, *arguments: str, url: str = "") -> Server:
    """One of our commands, not started; its log is in the demo's home."""
    port = ["--port", str(port_of(url))] if url else []
    # -P: whatever lies in the folder that it is started in is not ours to import.
    command = [sys.executable, "-P", "-c", PROGRAM, name, *port, *arguments]
    log, pid = (place.home / f"{name}.{what}" for what in ("log", "pid"))
    return Server(name, Child(command, place.environment(), place.home, log, pid, SECONDS_TO_STOP), url)


class Watch:
    """Looks after everything that runs; `tell` hears of deaths."""

    def __init__(self, studio: LabelStudioServer, servers: Sequence[Server], tell: Tell) -> None:
        self._studio = studio
        self._servers = servers
        self._tell = tell
        self._starting: StartingStudio | None = None

    def look(self) -> None:
        """One look at all of them."""
        for server in self._servers:
            server.look(time.monotonic(), self._tell)
        self._look_at_studio()

    def _look_at_studio(self) -> None:
        if self._starting is not None:
            if not self._starting.is_over:
                return
            if self._starting.error is not None:
                self._tell(f"Label Studio does not start: {self._starting.error}")
            self._starting = None
        if not self._studio.is_running:
            self._tell("Label Studio has died and is started again")
            self._studio.stop()
            self._starting = StartingStudio(self._studio)
