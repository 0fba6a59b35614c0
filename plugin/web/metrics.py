"""The metrics of the web app, over all of its processes."""

from collections.abc import Mapping

from ml_backend.serving.metrics import CONTENT_TYPE, metrics_page

__all__ = ["CONTENT_TYPE", "WebMetrics"]


class WebMetrics:
    """The metrics of the web app for Prometheus."""

    def __init__(self) -> None:
        # Imported here: it looks for the shared folder only when it is imported.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        self._requests = Counter(
            "outfox_web_requests", "Requests by route and status", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "outfox_web_request_seconds", "Time from a request's arrival to its reply", ["route"],
            registry=self._registry,
        )  # fmt: skip
        self._in_progress = Gauge(
            "outfox_web_in_progress", "Requests that are being answered", multiprocess_mode="livesum",
            registry=self._registry,
        )  # fmt: skip
        self._attempts = Counter(
            "outfox_web_attempts", "Attempts received, by outcome", ["what"], registry=self._registry
        )
        self._reads = Counter(
            "outfox_web_label_studio_reads", "Reads of Label Studio, by task and outcome",
            ["task", "outcome"], registry=self._registry,
        )  # fmt: skip

    def arrived(self) -> None:
        """Count a request that has arrived; `answered` follows."""
        self._in_progress.inc()

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._in_progress.dec()
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def attempts(self, counts: Mapping[str, int]) -> None:
        """Count attempts that were stored, repeated or refused."""
        for what, count in counts.items():
            self._attempts.labels(what).inc(count)

    def read(self, task: str, outcome: str) -> None:
        """Count a read of Label Studio, with its outcome."""
        self._reads.labels(task, outcome).inc()

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format, from all processes that share a folder."""
        return metrics_page(self._registry)
