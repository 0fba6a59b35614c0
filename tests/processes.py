"""Processes for tests to kill: forks of a server that has imported their modules, and so started quickly."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_PRELOADED = ["pytest", "boto3", "ml_backend.registry.registry", "ml_backend.registry.s3"]
_FORKS.set_forkserver_preload(_PRELOADED)
# Long: other tests use the same cores. An answer ends the wait.
_SECONDS = 600.0


def preload(module: str) -> None:
    """Import a module in the server too, unless it runs already; then each process imports it."""
    _PRELOADED.append(module)
    _FORKS.set_forkserver_preload(_PRELOADED)


class ForkedProcess:
    """A process that runs `target(pipe, *arguments)`, and the other end of its pipe."""

    def __init__(self, target: Callable[..., None], *arguments: Any, environment: Mapping[str, str]) -> None:
        self._pipe, theirs = _FORKS.Pipe()
        everything = {**os.environ, **environment}
        self.process: BaseProcess = _FORKS.Process(target=_run, args=(target, theirs, everything, arguments))
        self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self.process.pid is not None
        return self.process.pid

    def receive(self) -> Any:
        """Return the next message that it sends."""
        assert self._pipe.poll(_SECONDS), "the process says nothing"
        return self._pipe.recv()

    def ask(self, message: str) -> Any:
        """Send a message and return the answer."""
        self._pipe.send(message)
        return self.receive()

    def join(self) -> int | None:
        """Wait for its end and return its exit code."""
        self.process.join(_SECONDS)
        return self.process.exitcode

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.is_alive()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.join()


@contextmanager
def running(target: Callable[..., None], *arguments: Any, environment: Mapping[str, str]) -> Iterator[ForkedProcess]:
    """Run a process, which first sends `ready`, and kill it at the end of the block."""
    started = ForkedProcess(target, *arguments, environment=environment)
    try:
        assert started.receive() == "ready"
        yield started
    finally:
        started.kill()


def _run(
    target: Callable[..., None], pipe: Connection, environment: Mapping[str, str], arguments: tuple[Any, ...]
) -> None:
    # The server's environment is that of the first test that started a process.
    os.environ.clear()
    os.environ.update(environment)
    target(pipe, *arguments)
