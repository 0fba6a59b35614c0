"""A serving process without HTTP: a pool, and threads that send it one request after the other."""

import dataclasses
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from ml_backend.errors import RegistryError
from ml_backend.registry.model_pool import ModelPool
from ml_backend.registry.registry import Registry, Timing, open_registry
from ml_backend.targets.target import LabelPrediction
from tests.fakes.registry import ROW, TASK, load_fixed

QUICK = Timing(poll=0.1, wait=0.02, heartbeat=0.5, lease=5.0)


def open_quickly(url: str, cache: Path) -> Registry:
    """Open a registry that polls quickly."""
    registry = open_registry(url, cache)
    registry.timing = QUICK  # type: ignore[misc]  # read-only except in tests
    return registry


class Asking:
    """Asks until it is stopped, and records every answer."""

    def __init__(self, pool: ModelPool) -> None:
        self._pool = pool
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.answers: list[tuple[int, int, str, str]] = []
        self.failed: list[str] = []

    def start(self, threads: int) -> None:
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        # The pause represents the cost of a request elsewhere.
        while not self._over.wait(0.002):
            asked = time.monotonic_ns()
            try:
                serving = self._pool.models_for(TASK)
                (answer,) = serving.targets[0].predict([ROW])
            except RegistryError as error:
                self.failed.append(str(error))
                continue
            assert isinstance(answer, LabelPrediction)
            self.answers.append((asked, serving.generation, serving.targets[0].version, answer.label))


def serve(pipe: Connection, url: str, cache: Path, threads: int) -> None:
    """Send `ready`, answer `state`, and stop and report at `end`."""
    pool = ModelPool(open_quickly(url, cache), load_fixed, [TASK])
    pool.start()
    asking = Asking(pool)
    asking.start(threads)
    pipe.send("ready")
    while pipe.recv() == "state":
        pipe.send({**dataclasses.asdict(pool.state()), "answers": len(asking.answers)})
    state = dataclasses.asdict(pool.state())
    asking.stop()
    pool.stop()
    pipe.send({"answers": asking.answers, "failed": asking.failed, "state": state})
