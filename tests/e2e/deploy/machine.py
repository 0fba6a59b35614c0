"""The services of docker-compose.yml as plain processes of this machine, each started when the file says so.

The environment, the commands and the health checks are the file's. Changed are only names of hosts, which become
127.0.0.1, ports, which become free ones, and the folders of volumes.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Self

from plugin.server_process import free_port
from tests.e2e.deploy.compose import ROOT, Service
from tests.e2e.deploy.postgres import Postgres

PORTS = {"postgres": 5432, "label-studio": 8080, "web": 8000, "ml-backend": 9090, "marketplace": 7500}
PATIENCE = 300.0
# Each health check starts a process.
SECONDS_BETWEEN_LOOKS = 0.5


class Machine:
    """Starts, checks and stops services, and runs commands in their environments."""

    def __init__(self, services: Mapping[str, Service], folder: Path) -> None:
        self._services = services
        self._folder = folder
        self._ports = {str(port): str(free_port()) for port in PORTS.values()}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._postgres: Postgres | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_told: object) -> None:
        for process in self._running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._stack.close()

    def in_order(self) -> list[str]:
        """Return the services, dependencies first."""
        return list(TopologicalSorter({name: one.needs for name, one in self._services.items()}).static_order())

    def start(self, name: str) -> None:
        """Start a service once its dependencies are in the required state."""
        service = self._services[name]
        for other, condition in service.needs.items():
            if condition == "service_healthy":
                self.wait_until_well(other)
            else:
                assert (condition, self._running[other].wait(PATIENCE)) == ("service_completed_successfully", 0), (
                    self.log(other)
                )
        if name == "postgres":
            port = int(self._ports[str(PORTS[name])])
            self._postgres = self._stack.enter_context(Postgres(port, service.environment))
            self._postgres.first_start()
            return
        with self._log_file(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                [self._here(part) for part in service.command],
                env=self.environment(name),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start_again(self, services: Mapping[str, Service], *names: str) -> None:
        """Restart services with a changed .env, as `up -d` does."""
        self._services = services
        for name in names:
            self._running[name].send_signal(signal.SIGTERM)
            assert self._running[name].wait(services[name].grace) == 0, self.log(name)
            self.start(name)

    def is_well(self, name: str) -> bool:
        """Return the result of the file's own health check."""
        check = [self._here(part) for part in self._services[name].health]
        asked = subprocess.run(check, env=self.environment(name), cwd=self._folder, capture_output=True, check=False)
        return asked.returncode == 0

    def wait_until_well(self, name: str) -> None:
        """Wait until the service is healthy; fail if its process ends before."""
        end = time.monotonic() + PATIENCE
        while not self.is_well(name):
            process = self._running.get(name)
            assert process is None or process.poll() is None, f"{name} ended:\n{self.log(name)}"
            assert time.monotonic() < end, f"{name} never became well:\n{self.log(name)}"
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def run(self, name: str, *command: str) -> str:
        """Run a command as an owner would in a service's container; return its output."""
        ran = subprocess.run(
            command, env=self.environment(name), cwd=self._folder, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{command} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def stop(self) -> dict[str, int]:
        """Stop all services, as `docker compose down` does, within the file's grace period; return their exit codes."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        return {name: process.wait(self._services[name].grace) for name, process in self._running.items()}

    def left_over(self, name: str) -> bool:
        """Return whether any process of the service still runs."""
        try:
            os.killpg(self._running[name].pid, 0)
        except ProcessLookupError:
            return False
        return True

    def folder(self, place: str) -> Path:
        """Return the folder of the volume that containers mount at that path."""
        folder = self._folder / place.strip("/").replace("/", "-")
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def log(self, name: str) -> str:
        """Return the log of a service."""
        return self._log_file(name).read_text(encoding="utf-8", errors="replace")

    def environment(self, name: str) -> dict[str, str]:
        """Return a container's environment: the image's and the file's variables, and none of the test process."""
        folders = os.pathsep.join(
            [str(Path(sys.executable).parent), *(self._postgres.programs if self._postgres else ())]
        )
        image = {"PATH": f"{folders}{os.pathsep}{os.defpath}", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
        image |= {"HF_HUB_OFFLINE": "1", "HOME": str(self._folder), "PYTHONPATH": str(ROOT)}
        given = self._services[name].environment
        return image | {key: self._host(key, self._here(value)) for key, value in given.items()}

    def _here(self, text: str) -> str:
        """Return a text of the file with this machine's hosts, ports and folders."""
        if text in self._ports:
            return self._ports[text]
        for service in self._services.values():
            for place in service.volumes:
                if text == place:
                    return str(self.folder(place))
            for alias in service.aliases:
                text = text.replace(f"//{alias}:", "//127.0.0.1:")
        text = text.replace("@postgres:", "@127.0.0.1:").replace("0.0.0.0", "127.0.0.1")
        return re.sub(r"(?<=127\.0\.0\.1:)\d+(?!\w)", lambda found: self._ports[found[0]], text)

    @staticmethod
    def _host(key: str, value: str) -> str:
        return "127.0.0.1" if key == "POSTGRE_HOST" and value == "postgres" else value

    def _log_file(self, name: str) -> Path:
        return self._folder / f"{name}.log"
