"""Middleware: every request gets an id, a line in the log, metrics, and limited time for its body."""

import logging
import re
import time
import uuid
from collections.abc import Mapping

from flask import Flask, Response, request
from werkzeug.exceptions import RequestEntityTooLarge, RequestTimeout

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


REQUEST_ID = "outfox.request_id"
_ARRIVED = "outfox.arrived"
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SECONDS_OF_SILENCE = 10.0
SECONDS_FOR_DISCARDING = 30.0
DISCARDED_BYTES = 100_000_000
_log = logging.getLogger(__name__)


def add_request_logging(app: Flask, metrics: WebMetrics) -> None:
    """Give every request an id, which its response and its line in the log carry, and count it."""

    @app.before_request
    def arrive() -> None:
        given = request.headers.get("X-Request-ID", "")
        request.environ[REQUEST_ID] = given if _GOOD_ID.fullmatch(given) else uuid.uuid4().hex[:16]
        request.environ[_ARRIVED] = time.monotonic()
        metrics.arrived()
        connection = request.environ.get("gunicorn.socket")
        if connection is not None:
            # A client that has stopped sending must not keep a thread.
            connection.settimeout(SECONDS_OF_SILENCE)

    @app.after_request
    def leave(response: Response) -> Response:
        seconds = time.monotonic() - request.environ[_ARRIVED]
        # The route, not the path: names that clients invent must not become metrics or reach the log.
        route = request.endpoint or "other"
        metrics.answered(route, response.status_code, seconds)
        response.headers["X-Request-ID"] = request.environ[REQUEST_ID]
        data = {"request_id": request.environ[REQUEST_ID], "status": response.status_code}
        _log.info(route, extra={"data": {**data, "ms": round(seconds * 1_000, 2)}})
        return response


def read_body() -> bytes:
    """Return the request's body, up to the app's limit; raise an HTTP error if it is too large or stops arriving."""
    try:
        return request.get_data(cache=False)
    except RequestEntityTooLarge:
        discard_body()
        raise
    except TimeoutError as error:
        raise RequestTimeout from error


def discard_body() -> None:
    """Read and drop a body, within limits: many clients do not read the response while they are sending."""
    left, end = DISCARDED_BYTES, time.monotonic() + SECONDS_FOR_DISCARDING
    # The server's own stream: Flask's refuses a body that is too large before any of it is read.
    stream = request.environ["wsgi.input"]
    try:
        while left > 0 and time.monotonic() < end and (piece := stream.read(min(left, 65_536))):
            left -= len(piece)
    except TimeoutError as error:
        raise RequestTimeout from error


SCHEME = "bearer"


def bearer_token(header: str) -> str:
    """The token that an Authorization header carries, none where it carries no such thing.

    The name of the scheme is written in any case (RFC 9110, 11.1).
    """
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == SCHEME else ""
