"""Metrics of the backend: for Prometheus over all of its processes, and recent latencies of this one."""

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ml_backend.verdict import Verdict

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Names the folder in which the processes of one backend keep their metrics together. prometheus_client reads it only
# when it is imported; that is why it is imported below and not here.
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
RECENT = 2_048
PREDICT = "predict"
_BUCKETS = (0.002, 0.004, 0.006, 0.008, 0.012, 0.02, 0.04, 0.08, 0.16, 0.4, 1.0, 4.0, 16.0)
_FOOLED = {True: "yes", False: "no", None: "unknown"}


class Metrics:
    """The metrics of one backend; cheap enough for every request."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        self._requests = Counter(
            "outfox_backend_requests", "Requests by task, action and status", ["task", "what", "status"],
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "outfox_backend_predict_seconds", "Time from a predict call's arrival to its reply", ["task"],
            buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip
        self._verdicts = Counter(
            "outfox_backend_verdicts", "Verdicts by task and whether the model was fooled", ["task", "fooled"],
            registry=self._registry,
        )  # fmt: skip
        self._attempts = Counter(
            "outfox_backend_tries", "Attempts by the result of their delivery", ["what"],
            registry=self._registry,
        )  # fmt: skip
        self._in_progress = Gauge(
            "outfox_backend_in_progress", "Predict calls that wait or are being answered",
            multiprocess_mode="livesum", registry=self._registry,
        )  # fmt: skip
        self._recent: deque[tuple[float, float]] = deque(maxlen=RECENT)
        self.began = time.monotonic()

    def arrived(self) -> None:
        """Count a predict call that arrived; `answered` follows."""
        self._in_progress.inc()

    def answered(self, task: str, what: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(task, what, str(status)).inc()
        if what == PREDICT:
            self._in_progress.dec()
            self._seconds.labels(task).observe(seconds)
            self._recent.append((time.monotonic(), seconds))

    def judged(self, verdict: Verdict) -> None:
        """Count a verdict."""
        self._verdicts.labels(verdict.task, _FOOLED[verdict.fooled]).inc()

    def attempts(self, what: str, count: int) -> None:
        """Count attempts that were delivered, refused or dropped."""
        self._attempts.labels(what).inc(count)

    def page(self) -> bytes:
        """Return the metrics of all processes that share a folder, in Prometheus' text format."""
        return metrics_page(self._registry)

    def latency(self) -> dict[str, Any]:
        """Return the recent predict calls of this process: their number in the last minute, and their latency."""
        recent = list(self._recent)
        since = time.monotonic() - 60
        times = sorted(seconds for _, seconds in recent)
        last_minute = sum(at >= since for at, _ in recent)
        if not times:
            return {"last_minute": 0, "of": 0}
        percentiles = {f"p{percent}_ms": _percentile(times, percent) for percent in (50, 90, 99)}
        return {"last_minute": last_minute, "of": len(times), **percentiles}


def metrics_page(own: "CollectorRegistry") -> bytes:
    """Return the metrics of all processes that share a folder, or this process's own, in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest, multiprocess

    if SHARED_FOLDER not in os.environ:
        return generate_latest(own)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def forget_process(process: int) -> None:
    """Drop the gauges of a process that has ended; its counters are kept."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(process)  # type: ignore[no-untyped-call]


def _percentile(times: list[float], percent: int) -> float:
    return round(times[min(len(times) - 1, len(times) * percent // 100)] * 1_000, 2)
