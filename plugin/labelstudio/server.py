"""Label Studio as a child process: started without prompts, without outside calls, and always stopped."""

import importlib.util
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from common.errors import Hint
from plugin.errors import LabelStudioNotInstalled, PluginError
from plugin.server_process import ServerProcess, free_port, is_up

HOST = "127.0.0.1"
# The first start migrates the database; later ones take about ten seconds.
SECONDS_TO_START = 600.0
POLL_SECONDS = 0.25

# Called with the stage, and the seconds since the start.
Progress = Callable[[str, float], None]

# No telemetry and no version checks; an ML backend on this machine may be called.
_ENVIRONMENT = {
    "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
    "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
    "COLLECT_ANALYTICS": "false",
    "LATEST_VERSION_CHECK": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "FEATURE_FLAGS_OFFLINE": "true",
    "ML_BLOCK_LOCAL_IP": "false",
    "SSRF_PROTECTION_ENABLED": "false",
}


class LabelStudioStartFailed(PluginError):
    """Label Studio cannot be started on this machine; `retry` says whether another start can help."""

    def __init__(self, message: str, *, retry: bool = False, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry = retry


@dataclass
class LabelStudioServer:
    """One Label Studio on this machine, with its own data directory and log file."""

    data_dir: Path
    port: int
    email: str
    password: str = field(repr=False)
    token: str = field(repr=False)
    _child: ServerProcess | None = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether it runs, or is starting."""
        return self._child is not None and self._child.lives

    @property
    def log_file(self) -> Path:
        """The file that it logs to."""
        return self.data_dir / "label-studio.log"

    def start(self, progress: Progress = lambda _what, _seconds: None) -> None:
        """Start the server and wait until it responds; LabelStudioStartFailed if it does not."""
        self.check()
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._child = self._new_child()
        self._child.start()
        try:
            self._wait(progress)
        except BaseException:
            self.stop()
            raise

    def end_leftover(self) -> None:
        """Stop a server that an earlier process of ours left running."""
        self._new_child().end_leftover()

    def stop(self) -> None:
        """Stop the server and its child processes, if it runs."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def check(self) -> None:
        """Raise LabelStudioStartFailed if the server cannot be started."""
        if self._child is not None:
            raise LabelStudioStartFailed("this Label Studio is already running; stop it first")
        if importlib.util.find_spec("label_studio") is None:
            raise LabelStudioNotInstalled("Label Studio is not installed")
        if "@" not in self.email:
            raise LabelStudioStartFailed(
                f"`{self.email}` is not an e-mail address, which Label Studio needs for the login"
            )
        if not re.fullmatch(r"[0-9a-f]{40}", self.token):
            raise LabelStudioStartFailed("the token of Label Studio must be 40 hexadecimal digits")
        # Label Studio would silently use the next free port.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                text = f"port {self.port} is taken; choose another one for Label Studio with --port"
                hint = Hint("choose_demo_port", port=free_port())
                raise LabelStudioStartFailed(text, hint=hint) from error

    def _new_child(self) -> ServerProcess:
        place = ["--internal-host", HOST, "--port", str(self.port), "--host", self.url]
        command = [sys.executable, "-m", "label_studio.server", "start", "--no-browser", *place]
        pid_file = self.data_dir / "label-studio.pid"
        return ServerProcess(command, self._environment(), self.data_dir, self.log_file, pid_file)

    def _environment(self) -> dict[str, str]:
        # Settings of another Django or Label Studio in our environment must not leak in.
        inherited = {name: value for name, value in os.environ.items() if not re.match("DJANGO|LABEL_STUDIO", name)}
        return {
            **inherited,
            **_ENVIRONMENT,
            "LABEL_STUDIO_BASE_DATA_DIR": str(self.data_dir),
            "LABEL_STUDIO_USERNAME": self.email,
            "LABEL_STUDIO_PASSWORD": self.password,
            "LABEL_STUDIO_USER_TOKEN": self.token,
        }

    def _wait(self, progress: Progress) -> None:
        began = time.monotonic()
        while not is_up(self.url):
            child, seconds = self._child, time.monotonic() - began
            if child is None:
                raise LabelStudioStartFailed("Label Studio was stopped while it was starting")
            log = f"the end of {self.log_file}:\n{child.last_words()}"
            if not child.lives:
                raise LabelStudioStartFailed(f"Label Studio exited while it was starting; {log}")
            if seconds > SECONDS_TO_START:
                text = f"Label Studio did not respond within {SECONDS_TO_START:.0f} s; {log}"
                raise LabelStudioStartFailed(text, retry=True)
            migrates = "Initializing database" in child.log()
            progress("Label Studio prepares its database" if migrates else "Label Studio is starting", seconds)
            time.sleep(POLL_SECONDS)
