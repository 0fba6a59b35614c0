"""A serving process without HTTP: a pool, and threads that send it one request after the other."""

import dataclasses
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ml_backend.errors import RegistryError
from ml_backend.registry.model_pool import ModelPool
from ml_backend.targets.target import LabelPrediction
from tests.fakes.registry import ROW, TASK, load_fixed
from tests.integration.ml_backend.registry.conftest import open_quickly


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


def main(settings: dict[str, Any]) -> None:
    pool = ModelPool(open_quickly(settings["url"], Path(settings["cache"])), load_fixed, [TASK])
    pool.start()
    asking = Asking(pool)
    asking.start(settings["threads"])
    print("ready", flush=True)
    for line in sys.stdin:
        state = dataclasses.asdict(pool.state())
        if line.strip() == "end":
            break
        print(json.dumps({**state, "answers": len(asking.answers)}, default=str), flush=True)
    asking.stop()
    pool.stop()
    print(json.dumps({"answers": asking.answers, "failed": asking.failed, "state": state}, default=str), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
