"""The demo as its owner runs it: one command in a separate process, which tests inspect, kill and restart."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from round_manager.database.store import Store, open_store
from round_manager.learning.training_jobs import running_job
from round_manager.tasks.tasks import find_task

PROGRAM = str(Path(sys.executable).parent / "outfox")
# Long: other tests use the same cores. A condition that holds ends the wait.
SECONDS_TO_WAIT = 600
SECONDS_TO_END = 300
SECONDS_BETWEEN_LOOKS = 0.05
PLAYING = "The simulated crowd runs"
# Threads that wait for each other by spinning take from the other processes what these could use.
FRUGAL = {"OMP_NUM_THREADS": "1"}
DEMO, TRAINING = "demo", "training"
# The file of each server's number, and what its command has in it.
SERVERS = {
    "serve": ("serve.pid", "main() serve"),
    "ml-backend": ("ml-backend.pid", "main() ml-backend"),
    "marketplace": ("marketplace.pid", "main() marketplace"),
    "manage": ("manage.pid", "main() manage"),
    "label-studio": ("label-studio/label-studio.pid", "label_studio.server"),
}
EVERYBODY = (*SERVERS, TRAINING, DEMO)


class RunningDemo:
    """`outfox demo` in one home; killed and started again, it goes on where it was."""

    def __init__(self, home: Path, port: int, *options: object) -> None:
        self.home = home
        self.starts = 0
        self._command = [PROGRAM, "--home", str(home), "demo", "--port", str(port), "--json", *map(str, options)]
        self._lock = threading.Lock()
        self._store: Store | None = None
        self.start()

    @property
    def config(self) -> Path:
        return self.home / "demo.toml"

    @property
    def addresses(self) -> dict[str, str]:
        """The settings that it keeps."""
        return tomllib.loads(self.config.read_text(encoding="utf-8"))

    @property
    def said(self) -> str:
        """Return the output since the last start."""
        return self._file("err").read_text(encoding="utf-8", errors="replace")

    @property
    def is_playing(self) -> bool:
        """Whether everything is up, and its crowd at work."""
        return self._process.poll() is None and PLAYING in self.said

    def start(self) -> None:
        """Starts it; what an earlier process printed is kept."""
        self.starts += 1
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            self._process = subprocess.Popen(self._command, env={**os.environ, **FRUGAL}, stdout=out, stderr=err)

    def pid(self, name: str) -> int | None:
        """The number of one of its processes; None where it does not run now."""
        if name == DEMO:
            return self._process.pid if self._process.poll() is None else None
        if name == TRAINING:
            return _checked(self._training(), "model retrain")
        file, command = SERVERS[name]
        try:
            return _checked(int((self.home / file).read_text(encoding="ascii")), command)
        except (FileNotFoundError, ValueError):
            return None

    def kill(self, name: str) -> bool:
        """One of its processes is gone at once, as when memory runs out; whether it ran. The demo is started again."""
        with self._lock:
            pid = self.pid(name)
            if pid is None:
                return False
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False
            if name == DEMO:
                self._process.wait()
                self.start()
        return True

    def ended(self) -> int | None:
        """Return its exit code; None while it runs or restarts."""
        with self._lock:
            return self._process.poll()

    def revive(self) -> bool:
        """Starts it again where it gave up, as when a server was killed before all were up; whether it had."""
        with self._lock:
            gave_up = bool(self._process.poll())
            if gave_up:
                self.start()
        return gave_up

    def printed(self) -> Any:
        """The document that it printed at its end."""
        return json.loads(self._file("out").read_text(encoding="utf-8"))

    def stop(self) -> None:
        """Ends it and its servers, as Ctrl-C does."""
        with self._lock:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
            if self._store is not None:
                self._store.close()
            try:
                self._process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                self._end_all()
                raise

    def _end_all(self) -> None:
        for pid in [self.pid(name) for name in SERVERS]:
            if pid is not None:
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _training(self) -> int | None:
        if not (self.home / "outfox.db").is_file():
            return None
        # Opened once: it is looked at ten times a second.
        self._store = self._store or open_store(f"sqlite:///{self.home / 'outfox.db'}")
        with self._store.read() as session:
            job = running_job(session, find_task(session, "sentiment"))
        return job.pid if job else None

    def _file(self, kind: str) -> Path:
        return self.home.with_name(f"{self.home.name}-{self.starts}.{kind}")


@contextmanager
def running_demo(home: Path, port: int, *options: object) -> Iterator[RunningDemo]:
    """A demo that was started; it ends with the block at the latest."""
    demo = RunningDemo(home, port, *options)
    try:
        yield demo
    finally:
        demo.stop()


def about(config: Path, *arguments: str) -> Any:
    """What a command says about the demo whose settings are in the file, whether it is content or not."""
    ran = subprocess.run([PROGRAM, "--config", str(config), *arguments, "--json"], stdout=subprocess.PIPE, check=False)
    return json.loads(ran.stdout)


def is_up(url: str) -> bool:
    """Return whether a server answers at the URL."""
    try:
        return requests.get(f"{url}/health", timeout=5).ok
    except requests.RequestException:
        return False


def until(
    is_so: Callable[[], object], seconds: float = SECONDS_TO_WAIT, *, every: float = SECONDS_BETWEEN_LOOKS
) -> None:
    """Wait until it is so, and fail where it never is; a look that takes long should not be taken often."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(every)


def _checked(pid: int | None, command: str) -> int | None:
    """The number, if the process that has it now runs that command."""
    if pid is None:
        return None
    look = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    told = subprocess.run(look, stdout=subprocess.PIPE, text=True, check=False).stdout
    return pid if command in told else None
