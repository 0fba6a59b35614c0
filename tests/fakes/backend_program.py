"""A complete ML backend in a process, with models that need no loading and that a test can block.

In its folder, `hold` keeps the models from answering and `down` keeps attempts from being delivered, while they exist.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from common.clock import SystemClock
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.backend import BackendConfig, serve
from ml_backend.serving.connections import ConnectionLimits
from ml_backend.serving.processes import Address
from ml_backend.targets.target import Target
from plugin.logs import configure_logs
from templates import find_pack
from tests.conftest import PACKS
from tests.fakes.model_provider import FakeModelProvider
from tests.fakes.target import FakeTarget


def main() -> None:
    settings = json.loads(sys.argv[1])
    folder = Path(settings.pop("folder"))
    workers, grace = settings.pop("workers", 1), settings.pop("grace", 30)
    silence = settings.pop("silence", ConnectionLimits.idle_seconds)
    configure_logs("debug", "json")
    packs = {name: find_pack(name) for name in PACKS}

    def held() -> None:
        while (folder / "hold").exists():
            time.sleep(0.002)

    def models() -> FakeModelProvider:
        made = FakeModelProvider()
        for pack in packs.values():
            predictor: Target = FakeTarget(pack.spec, before=held)
            made.place(pack.spec.name, predictor)
        return made

    lock = threading.Lock()

    def deliver(attempts: Sequence[AttemptRecord]) -> None:
        if (folder / "down").exists():
            raise ConnectionRefusedError("connection refused")
        with lock, (folder / "delivered.jsonl").open("a", encoding="ascii") as file:
            file.writelines(json.dumps(one.to_json()) + "\n" for one in attempts)

    limits = ConnectionLimits(head_seconds=silence, idle_seconds=silence)
    config = BackendConfig(packs, models, SystemClock(), deliver, folder / "outbox", **settings)
    serve(config, Address("127.0.0.1", 0).listen(), workers=workers, grace=grace, limits=limits)


if __name__ == "__main__":
    main()
