"""A leftover server of a killed process is stopped at the next start, and no other process is."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from plugin import server_process
from plugin.server_process import HOST, PortTaken, ServerProcess, free_port

SLEEP = [sys.executable, "-c", "import time; time.sleep(120)"]
STUBBORN = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(120)"]
# It ends on SIGTERM; a process that it started holds the port for another second.
PARENT_OF_A_LISTENER = """
import os, signal, socket, sys, time
place = socket.create_server(("127.0.0.1", 0))
print(place.getsockname()[1], flush=True)
if not os.fork():
    signal.signal(15, lambda *_: (time.sleep(1), os._exit(0)))
    print("ready", flush=True)
time.sleep(120)
"""


def _child(folder: Path, command: list[str], seconds_to_stop: float = 10.0) -> ServerProcess:
    return ServerProcess(command, dict(os.environ), folder, folder / "it.log", folder / "it.pid", seconds_to_stop)


def _started(folder: Path, command: list[str]) -> "subprocess.Popen[bytes]":
    """A leftover server of another process, with its pid in the pid file."""
    process = subprocess.Popen(command, start_new_session=True)
    (folder / "it.pid").write_text(str(process.pid), encoding="ascii")
    return process


def test_a_leftover_process_is_stopped_before_the_next_start(tmp_path: Path) -> None:
    left = _started(tmp_path, SLEEP)
    again = _child(tmp_path, SLEEP)
    again.start()
    assert left.wait(10) in (-signal.SIGTERM, -signal.SIGKILL)
    assert again.lives
    again.stop()
    assert not (tmp_path / "it.pid").exists()


def test_a_leftover_is_found_even_if_its_parent_was_killed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[subprocess.Popen[bytes]] = []

    class KilledAfterwards(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **options: Any) -> None:
            super().__init__(command, **options)
            left.append(self)
            raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(subprocess, "Popen", KilledAfterwards)
        with pytest.raises(KeyboardInterrupt):
            _child(tmp_path, SLEEP).start()
    again = _child(tmp_path, SLEEP)
    deadline = time.monotonic() + 10
    while left[0].poll() is None and time.monotonic() < deadline:
        again.end_leftover()
    assert left[0].wait(0) in (-signal.SIGTERM, -signal.SIGKILL)


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    left = _started(tmp_path, STUBBORN)
    _child(tmp_path, STUBBORN, seconds_to_stop=1.0).end_leftover()
    assert left.wait(10) in (-signal.SIGKILL, -signal.SIGTERM)


def test_the_port_is_free_after_a_leftover_is_stopped(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT_OF_A_LISTENER, encoding="utf-8")
    command = [sys.executable, str(program)]
    left = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert left.stdout is not None
    with left.stdout as output:
        port = int(output.readline())
        output.readline()
    (tmp_path / "it.pid").write_text(str(left.pid), encoding="ascii")
    _child(tmp_path, command).end_leftover()
    with socket.create_server(("127.0.0.1", port)):
        pass
    left.wait(10)


def test_another_process_with_the_same_pid_is_left_alone(tmp_path: Path) -> None:
    other = _started(tmp_path, SLEEP)
    _child(tmp_path, STUBBORN).end_leftover()
    assert other.poll() is None
    other.kill()
    other.wait()


def test_an_unused_or_invalid_pid_is_ignored(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    for text in (str(gone.pid), "", "none"):
        (tmp_path / "it.pid").write_text(text, encoding="ascii")
        child = _child(tmp_path, SLEEP)
        child.start()
        assert child.lives
        child.stop()


OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_free_port_can_be_served_on_and_differs_from_the_last() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 15
    with socket.create_server((HOST, ports.pop())):
        pass


@pytest.mark.skipif(not OUTGOING_PORTS.exists(), reason="this system does not list its range of outgoing ports")
def test_a_free_port_is_outside_the_range_of_outgoing_connections() -> None:
    first, last = map(int, OUTGOING_PORTS.read_text(encoding="ascii").split())
    if first <= server_process.SERVER_PORTS.start:
        pytest.skip("this system uses every port for outgoing connections")
    assert not [port for port in (free_port() for _ in range(200)) if first <= port <= last]


def test_a_taken_port_raises_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(PortTaken):
        server_process.serve_locally(Flask("x"), taken.getsockname()[1], open_browser=False)
    assert capfd.readouterr() == ("", "")


def test_taken_ports_are_skipped_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as taken, socket.create_server((HOST, 0)) as other:
        mine, free = taken.getsockname()[1], other.getsockname()[1]
        other.close()
        monkeypatch.setattr(server_process, "SERVER_PORTS", [mine, free])
        assert {free_port() for _ in range(10)} == {free}
        monkeypatch.setattr(server_process, "SERVER_PORTS", [mine])
        with pytest.raises(PortTaken):
            free_port()
