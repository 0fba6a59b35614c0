"""A real Label Studio as a child process: started without a question, silent to the outside, ended for certain."""

import importlib.util
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from plugin.child import Child, is_up
from plugin.labelstudio.errors import INSTALL, LabelStudioError

HOST = "127.0.0.1"
# The first start migrates the database; the second is ready in ten seconds or so.
SECONDS_TO_START = 240.0
SECONDS_BETWEEN_LOOKS = 0.25

# What it is doing, and for how many seconds it has been starting.
Progress = Callable[[str, float], None]

# Nothing is reported or looked up outside; an ML backend on this machine may be called.
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


@dataclass
class LabelStudioServer:
    """One Label Studio on this machine; its data directory is its own, its log goes to a file in it."""

    data_dir: Path
    port: int
    email: str
    password: str = field(repr=False)
    token: str = field(repr=False)
    _child: Child | None = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """Where people and programs find it."""
        return f"http://{HOST}:{self.port}"

    @property
    def lives(self) -> bool:
        """Whether it runs, or is being started."""
        return self._child is not None and self._child.lives

    @property
    def log_file(self) -> Path:
        """Where it writes what it does."""
        return self.data_dir / "label-studio.log"

    def start(self, progress: Progress = lambda _what, _seconds: None) -> None:
        """Starts it and waits until it answers; whatever prevents that is a LabelStudioError with advice."""
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
        """Ends the one that a process of ours started here before it was killed."""
        self._new_child().end_leftover()

    def stop(self) -> None:
        """Ends it and everything that it started; does nothing when it does not run."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> None:
        """A LabelStudioError where it could not be started."""
        if self._child is not None:
            raise LabelStudioError("this Label Studio runs already; stop it first")
        if importlib.util.find_spec("label_studio") is None:
            raise LabelStudioError(f"Label Studio is not installed; run: {INSTALL}")
        if "@" not in self.email:
            raise LabelStudioError(f"`{self.email}` is not an e-mail address; Label Studio wants one to log in with")
        if not re.fullmatch(r"[0-9a-f]{40}", self.token):
            raise LabelStudioError(
                "Label Studio's token has to be 40 hexadecimal digits; make one with secrets.token_hex(20)"
            )
        # Label Studio would silently take the next free port.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise LabelStudioError(f"port {self.port} is taken; choose another for Label Studio") from error

    def _new_child(self) -> Child:
        place = ["--internal-host", HOST, "--port", str(self.port), "--host", self.url]
        command = [sys.executable, "-m", "label_studio.server", "start", "--no-browser", *place]
        pid_file = self.data_dir / "label-studio.pid"
        return Child(command, self._environment(), self.data_dir, self.log_file, pid_file)

    def _environment(self) -> dict[str, str]:
        # Settings of another Django or Label Studio around us must not leak in.
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
                raise LabelStudioError("Label Studio was stopped while it started")
            told = f"the end of {self.log_file}:\n{child.last_words()}"
            if not child.lives:
                raise LabelStudioError(f"Label Studio ended while it started; {told}")
            if seconds > SECONDS_TO_START:
                raise LabelStudioError(
                    f"Label Studio did not answer within {SECONDS_TO_START:.0f} s; {told}", retry=True
                )
            migrates = "Initializing database" in child.log()
            progress("Label Studio prepares its database" if migrates else "Label Studio starts", seconds)
            time.sleep(SECONDS_BETWEEN_LOOKS)
