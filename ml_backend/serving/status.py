"""The state of a serving process, for whoever wonders what it does."""

import os
import resource
import time
from dataclasses import asdict, is_dataclass
from typing import Any

from ml_backend.serving.metrics import Metrics
from ml_backend.serving.service import VerdictService


def status_of(service: VerdictService, metrics: Metrics) -> dict[str, Any]:
    """Queue, load, models, lately measured times, uptime and the sink of this process, as JSON takes it."""
    shelf = service.shelf.state()
    return {
        "process": os.getpid(),
        "uptime_seconds": round(time.monotonic() - metrics.began, 1),
        "queue": asdict(service.gate.load()),
        "load_average": [round(one, 2) for one in os.getloadavg()],
        "memory_mb": round(_resident_bytes() / 1e6, 1),
        "tasks": list(service.tasks),
        "models": asdict(shelf) if is_dataclass(shelf) and not isinstance(shelf, type) else shelf,
        "predict": metrics.latency(),
        "sink": asdict(service.sink.state()),
    }


def _resident_bytes() -> int:
    """What the process holds in memory now; where that cannot be read, the most that it ever held."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - one line, read often
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
