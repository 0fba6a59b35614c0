"""Middleware: every request gets an id, a line in the log, metrics, and error responses.

An error is a page for browsers and JSON for programs, with the message as `error`, and `code`, `retry` and `hint`.
"""

import logging
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from flask import Flask, Response, jsonify, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from common.errors import CodedError, Hint, one_line
from common.messages import as_sentence, gettext
from ml_backend.serving.metrics import metrics_page
from plugin.labelstudio.editor import own_addresses


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
_log = logging.getLogger(__name__)


def add_request_logging(app: Flask, metrics: WebMetrics) -> None:
    """Give every request an id, which its response and its line in the log carry, and count it."""

    @app.before_request
    def arrive() -> None:
        given = request.headers.get("X-Request-ID", "")
        request.environ[REQUEST_ID] = given if _GOOD_ID.fullmatch(given) else uuid.uuid4().hex[:16]
        request.environ[_ARRIVED] = time.monotonic()
        metrics.arrived()

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


def bearer_token(header: str) -> str:
    """Return the token of an Authorization header, empty if it has none; the scheme's name has any case (RFC 9110)."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


SECONDS_UNTIL_RETRY = 2
INTERNAL_ERROR = "internal_error"
GUARDED = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
JSON, HTML = "application/json", "text/html"
# Nothing about frames: a marketplace's frame shows this page too, and workers must be able to read it.
ERROR_POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
# What people read, by status; for other statuses, the message that programs get.
PAGES = {
    404: (
        gettext("There is nothing here"),
        gettext("The address may be cut short or mistyped, or what was here is gone."),
    ),
    405: (
        gettext("Only programs come here"),
        gettext("There is nothing to read at this address, and nothing is wrong with it."),
    ),
    500: (
        gettext("Something failed here"),
        gettext("It is not your fault. Try again in a while; what was stored before is safe."),
    ),
    503: (gettext("Not just now"), gettext("This server cannot answer at the moment. Try again in a while.")),
}
OTHER = gettext("That cannot be done")


@dataclass(frozen=True)
class ApiError:
    """An error as a response carries it."""

    status: int
    text: str
    code: str
    retry: bool = False
    hint: Hint | None = None

    @classmethod
    def of(cls, status: int, error: CodedError, *, retry: bool | None = None) -> "ApiError":
        """Return the response to one of our errors."""
        return cls(status, error.message, error.code, error.retry if retry is None else retry, error.hint)

    @classmethod
    def of_http(cls, error: HTTPException) -> "ApiError":
        """Return the response to an error of the web framework; its code is the status' name."""
        return cls(error.code or 400, error.name, error.name.lower().replace(" ", "_").replace("-", "_"))

    def as_data(self) -> dict[str, object]:
        """Return the JSON that programs get."""
        hint = self.hint.as_data() if self.hint else None
        return {"error": self.text, "code": self.code, "retry": self.retry, "hint": hint}


def unavailable(error: CodedError) -> ApiError:
    """Return the response to a request that may be sent again; its message, which can name paths, is only logged."""
    data = {"request_id": request.environ.get(REQUEST_ID, ""), "code": error.code, "error": one_line(error)}
    _log.warning("a request has to wait", extra={"data": data})
    return ApiError(503, error.summary, error.code, retry=True, hint=error.hint)


def wants_html() -> bool:
    """Whether a browser asks; programs that do not say what they accept get JSON."""
    return request.accept_mimetypes.best_match([JSON, HTML]) == HTML


def error_response(error: ApiError, *, for_people: str = "") -> Response:
    """Return the response to a request that failed; `for_people` replaces the usual text of the page."""
    number = request.environ.get(REQUEST_ID, "")
    if wants_html():
        title, usual = PAGES.get(error.status, (OTHER, as_sentence(error.text)))
        words = as_sentence(for_people) if for_people else usual
        shown = {"status": error.status, "title": title, "text": words, "number": number}
        response = make_response(render_template("error-page.html", file=own_addresses(), **shown))
        response.headers.update({**GUARDED, "Content-Security-Policy": ERROR_POLICY})
    else:
        response = jsonify({**error.as_data(), "request_id": number})
    response.headers["Vary"] = "Accept"
    response.status_code = error.status
    if error.retry:
        response.headers["Retry-After"] = str(SECONDS_UNTIL_RETRY)
    return response
