"""A real Ray cluster of one node, on this machine."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import requests

from tests.fakes.registry import eventually

START_SECONDS = 120.0
# Ray needs them beside the dashboard's; it would choose fixed ones.
PORTS = (
    "--port",
    "--dashboard-port",
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--metrics-export-port",
    "--runtime-env-agent-port",
    "--ray-client-server-port",
    "--node-manager-port",
    "--object-manager-port",
)
OPTIONS = ("--head", "--block", "--disable-usage-stats", "--include-log-monitor=true")
OPTIONS_OF_TESTS = ("--num-gpus", "0", "--object-store-memory", "80000000", "--dashboard-host", "127.0.0.1")


class RayCluster:
    """Started with `start`; `stop` ends every process of it, as a machine that goes down does."""

    def __init__(self, cpus: int = 2) -> None:
        # The paths of Ray's sockets must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        self._cpus = cpus
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self) -> None:
        """Start the node, and wait until jobs can be submitted."""
        ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.address = f"http://127.0.0.1:{ports['--dashboard-port']}"
        chosen = [text for name, port in ports.items() for text in (name, str(port))]
        programs = Path(sys.executable).parent
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTFOX_")}
        # Ray chooses the number of threads.
        environment.pop("OMP_NUM_THREADS", None)
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        command = [str(programs / "ray"), "start", *OPTIONS, *OPTIONS_OF_TESTS, "--num-cpus", str(self._cpus), *chosen]
        with (self._folder / "start.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--temp-dir", str(self._folder), "--min-worker-port", "0", "--max-worker-port", "0"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(self._is_ready, "the cluster accepts jobs", START_SECONDS, 0.2)

    def stop(self) -> None:
        """End all processes of the cluster at once, also those of its jobs, as a machine that goes down does."""
        if self._process is not None:
            # Found before their parents are gone; Ray renames some of them.
            mine = [self._process.pid, *descendants(self._process.pid)]
            for pid in mine:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "start.log").read_text()
        try:
            found = requests.get(f"{self.address}/api/v0/nodes?detail=1", timeout=5).json()
            listed = requests.get(f"{self.address}/api/jobs/", timeout=5)
            return found["data"]["result"]["total"] == 1 and listed.ok
        except (requests.RequestException, ValueError, KeyError, TypeError):
            return False


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(process.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def free_ports(wanted: int) -> list[int]:
    """Return ports that no process uses."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(wanted)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
