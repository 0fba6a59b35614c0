"""A complete ML backend in a process: the real server, pool and registry, with instant models."""

import sys
from pathlib import Path

from common.clock import SystemClock
from ml_backend.registry.model_pool import ModelPool
from ml_backend.registry.registry import open_registry
from ml_backend.serving.backend import BackendConfig, serve
from ml_backend.serving.processes import Address
from templates import find_pack
from tests.fakes.registry import TASK, load_fixed


def main() -> None:
    """Serve the registry at the first argument; the second is the folder for its downloads."""
    registry, cache = sys.argv[1], Path(sys.argv[2])

    def open_pool() -> ModelPool:
        return ModelPool(open_registry(registry, cache), load_fixed, [TASK])

    listening = Address("127.0.0.1", 0).listen()
    print(f"serving at http://127.0.0.1:{listening.getsockname()[1]}/tasks/TASK", flush=True)
    serve(BackendConfig({TASK: find_pack(TASK)}, open_pool, SystemClock(), at_once=2), listening)


if __name__ == "__main__":
    main()
