"""The ML backend: its configuration, the packs it serves, one serving process, and the server of several."""

import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from flask import Flask

from common.clock import Clock
from ml_backend.serving.attempt_forwarder import AttemptForwarder
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.connections import DEFAULT_LIMITS, ConnectionLimits
from ml_backend.serving.feedback_cache import FeedbackCache, MemoryCache, SharedCache
from ml_backend.serving.limiter import ConcurrencyLimiter
from ml_backend.serving.metrics import Metrics
from ml_backend.serving.outbox import NoSink, Outbox
from ml_backend.serving.processes import Workers, serve_processes
from ml_backend.serving.service import BULK_TIMEOUT, TIMEOUT, ModelProvider, VerdictService
from ml_backend.serving.web import backend_app
from ml_backend.verdict import VerdictSigner
from templates.errors import TemplateError
from templates.pack import Pack

NAME = "outfox-backend"
ROOM = 64
# Threads beyond those at the models and in line, so that a full backend can still answer that it is full.
SPARE_THREADS = 8
log = logging.getLogger(__name__)


class RunningModelProvider(ModelProvider, Protocol):
    """A model provider that loads and follows its models between `start` and `stop`."""

    def start(self) -> None:
        """Load the pinned models, then follow the pins."""

    def stop(self) -> None:
        """Stop following the pins."""


class PackCatalogue(Mapping[str, Pack]):
    """The packs of the served tasks, including tasks that appear later; looking up a known one reads no disk."""

    def __init__(self, find: Callable[[str], Pack]) -> None:
        self._find = find
        # Replaced as a whole and never changed: requests read it while a task is added.
        self._packs: Mapping[str, Pack] = {}
        self._errors: dict[str, str] = {}

    def __getitem__(self, task: str) -> Pack:
        return self._packs[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packs)

    def __len__(self) -> int:
        return len(self._packs)

    def add(self, task: str) -> None:
        """Add the task's pack; raise a TemplateError if it cannot be served."""
        self._packs = {**self._packs, task: self._find(task)}

    def can_serve(self, task: str) -> bool:
        """Add the task's pack if needed and return whether it can be served; log each new reason why not."""
        if task not in self._packs:
            try:
                self.add(task)
            except TemplateError as error:
                if self._errors.get(task) != str(error):
                    log.warning("a task is not served", extra={"data": {"task": task, "error": str(error)}})
                self._errors[task] = str(error)
        return task in self._packs


@dataclass(frozen=True)
class BackendConfig:
    """Everything that a serving process is built from; made once and used in every process.

    At most `at_once` calls reach the models at a time, and `room` others wait. Attempts go to the folder `outbox`, from
    which a sidecar process delivers them; without one they are not kept.
    """

    packs: Mapping[str, Pack]
    open_models: Callable[[], RunningModelProvider]
    clock: Clock
    deliver: Callable[[Sequence[AttemptRecord]], None] | None = None
    outbox: Path | None = None
    auth: BasicAuth | None = field(default=None, repr=False)
    # Shared with the web app, for which verdicts are signed; without one, the web app is not served.
    secrets: tuple[str, ...] = field(default=(), repr=False)
    at_once: int = 1
    room: int = ROOM
    timeout: float = TIMEOUT
    bulk_timeout: float = BULK_TIMEOUT


class Backend:
    """One serving process; call `close` after its last request."""

    def __init__(self, config: BackendConfig, shared: Path | None = None) -> None:
        metrics = Metrics()
        self._outbox = Outbox(config.outbox, on_count=metrics.attempts) if config.outbox else None
        self._models = config.open_models()
        service = VerdictService(
            config.packs,
            self._models,
            self._outbox or NoSink(),
            config.clock,
            limiter=ConcurrencyLimiter(config.at_once, config.room),
            feedback_cache=FeedbackCache(SharedCache(shared) if shared else MemoryCache()),
            on_verdict=metrics.judged,
            timeout=config.timeout,
            bulk_timeout=config.bulk_timeout,
        )
        signer = VerdictSigner(config.secrets) if config.secrets else None
        self.app: Flask = backend_app(service, metrics=metrics, auth=config.auth, signer=signer)
        if self._outbox:
            self._outbox.start()
        self._models.start()

    def close(self, timeout: float = 5.0) -> None:
        """Stop following the pins, then hand the remaining attempts to the forwarder."""
        self._models.stop()
        if self._outbox:
            self._outbox.close()


def serve(
    config: BackendConfig,
    listening: socket.socket,
    *,
    workers: int = 1,
    grace: int = 30,
    limits: ConnectionLimits = DEFAULT_LIMITS,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish within `grace` seconds; this call ends the process."""

    def start_worker(shared: Path) -> Backend:
        return Backend(config, shared if workers > 1 else None)

    def forward(wait: Callable[[float], bool]) -> None:
        if config.outbox and config.deliver:
            AttemptForwarder(config.outbox, config.deliver, on_count=Metrics().attempts).run(wait)

    processes = Workers(NAME, workers, config.at_once + config.room + SPARE_THREADS, grace, limits)
    serve_processes(start_worker, listening, processes, forward if config.outbox and config.deliver else None)
