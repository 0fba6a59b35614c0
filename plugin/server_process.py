"""Servers on this machine: as child processes that are reliably stopped, a preview until Ctrl-C, and free ports."""

import os
import signal
import socket
import subprocess
import threading
import time
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

import click
import requests
from flask import Flask
from werkzeug.serving import make_server

from plugin.errors import PluginError

HOST = "127.0.0.1"
# Below the range of outgoing connections (from 32768 or 49152): a server that restarts on such a port may find it taken
# by a client's connection, even by the one that asks whether the server is back.
SERVER_PORTS = range(20_000, 32_768)
# Not the shared generator: a common seed must not make two processes choose the same ports.
_RANDOM = SystemRandom()
STOP_SECONDS = 10.0
POLL_SECONDS = 0.2
LAST_LINES = 12
# The process writes its own pid before it becomes the server: its parent may be killed before it knows the pid.
WRITE_PID = ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"')


class PortTaken(PluginError):
    """The port, or every port of the range, is in use."""


@dataclass
class ServerProcess:
    """One server on this machine. `stop` leaves nothing of it behind; it kills after `seconds_to_stop`.

    With a `pid_file`, the next start ends a server that was left behind when the parent process was killed.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    log_file: Path
    pid_file: Path | None = None
    seconds_to_stop: float = STOP_SECONDS
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def lives(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server; its output goes to the log file."""
        self.end_leftover()
        write_pid = () if self.pid_file is None else (*WRITE_PID, str(self.pid_file.resolve()))
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*write_pid, *self.command],
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A new process group: it can be ended as a whole, and Ctrl-C in this process does not reach it.
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the server and everything that it started; do nothing if it does not run."""
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
        """End a server that an earlier process left behind, but no other process that has its pid now."""
        if self.lives or self.pid_file is None or not self.pid_file.is_file():
            return
        pid = self.pid_file.read_text(encoding="ascii").strip()
        if pid.isdecimal() and self._is_ours(pid):
            for how in (signal.SIGTERM, signal.SIGKILL):
                _end(pid, how, self.seconds_to_stop)
        self.pid_file.unlink(missing_ok=True)

    def log(self) -> str:
        """Return its output so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def last_words(self) -> str:
        """Return the end of its log, indented."""
        return "\n".join(f"  {line}" for line in self.log().splitlines()[-LAST_LINES:])

    def _is_ours(self, pid: str) -> bool:
        """Return whether the process with that pid runs this command."""
        command = ["ps", "-ww", "-o", "args=", "-p", pid]
        listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        return listed.stdout.strip() == " ".join(self.command)


def _end(group: str, how: signal.Signals, seconds: float) -> None:
    """Send a signal to a process group, if it still has members, and wait until it has none."""
    deadline = time.monotonic() + seconds
    if _has_members(group):
        with suppress(ProcessLookupError):
            os.killpg(int(group), how)
    while _has_members(group) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _has_members(group: str) -> bool:
    """Return whether a process group has a member that could hold a port.

    A zombie holds nothing, unless other threads of it are still ending.
    """
    command = ["ps", "-ax", "-o", "pgid=,stat="]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    states = [state for one, state in map(str.split, listed.stdout.splitlines()) if one == group]
    return any(not state.startswith("Z") or "l" in state for state in states)


def is_up(url: str, auth: tuple[str, str] | None = None) -> bool:
    """Return whether a server on this machine reports that it is healthy; `auth` is a user and a password."""
    with requests.Session() as session:
        session.trust_env = False  # a proxy cannot reach this machine's ports
        try:
            return session.get(f"{url}/health", auth=auth, timeout=2).ok
        except requests.RequestException:
            return False


def serve_locally(app: Flask, port: int, *, open_browser: bool) -> None:
    """Serve on loopback until Ctrl-C, and print the address."""
    try:
        # Bound here: werkzeug prints its own message and exits if the port is taken.
        listening = socket.create_server((HOST, port))
    except OSError as error:
        raise PortTaken(f"port {port} is taken; choose another one with --port, or 0 for a free one") from error
    with listening:
        server = make_server(HOST, port, app, threaded=True, fd=listening.fileno())
    address = f"http://{HOST}:{server.port}/"
    click.echo(f"open {address} (Ctrl-C stops)")
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo("stopped")
    finally:
        server.server_close()


def free_port() -> int:
    """Return a free port outside the range of outgoing connections."""
    first = _RANDOM.randrange(len(SERVER_PORTS))
    for place in range(len(SERVER_PORTS)):
        port = SERVER_PORTS[first + place - len(SERVER_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise PortTaken(f"every port from {SERVER_PORTS[0]} to {SERVER_PORTS[-1]} is in use; stop a server")
