"""The ML backend's processes, each with models of its own."""

import socket
from collections.abc import Callable
from pathlib import Path

from ml_backend.serving.backend import Backend, Plan
from ml_backend.serving.courier import Courier
from ml_backend.serving.metrics import Metrics
from ml_backend.serving.processes import Workers, serve_processes

NAME = "outfox-backend"
# Threads beyond those at the models and in line, so that a full backend can still say that it is full.
SPARE_THREADS = 8


def serve(plan: Plan, listening: socket.socket, *, workers: int = 1, grace: int = 30) -> None:
    """Serves until SIGTERM or SIGINT, then finishes what it has in `grace` seconds; it ends the process."""

    def begin(shared: Path) -> Backend:
        return Backend(plan, shared if workers > 1 else None)

    def carry(wait: Callable[[float], bool]) -> None:
        if plan.outbox and plan.deliver:
            Courier(plan.outbox, plan.deliver, told=Metrics().tries).run(wait)

    chosen = Workers(NAME, workers, plan.at_once + plan.room + SPARE_THREADS, grace)
    serve_processes(begin, listening, chosen, carry if plan.outbox and plan.deliver else None)
