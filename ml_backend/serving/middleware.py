"""WSGI middleware of the backend: request ids, authentication, logging and metrics, and a fast path for predictions.

Predict calls are answered here without Flask, whose routing and request objects would take longer than the rest of the
call. Other requests go on to Flask. Bodies are parsed in bounded memory, as JSON only.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from ml_backend.errors import BackendError, InvalidRequest, RequestTooLarge, TooManyWrongPasswords
from ml_backend.serving.auth import BasicAuth, WrongPasswordLimiter
from ml_backend.serving.limiter import ConcurrencyLimiter
from ml_backend.serving.metrics import PREDICT, Metrics
from ml_backend.serving.replies import HttpReply, error_reply, failure, unauthorized
from ml_backend.serving.service import VerdictService

MAX_BYTES = 16_000_000
# Parsing a body of many small parts takes twenty times its size in memory: large ones are parsed one at a time.
LARGE_BYTES = 1_000_000

Environ = Mapping[str, Any]
JSON = "application/json"
REQUEST_ID = "outfox.request_id"
PUBLIC_PATH = "/health"
WEBHOOK = "webhook"
ERROR_STATUS = 400
SLOW_SECONDS = 0.5

_PATH = re.compile(r"/tasks/([a-z0-9_]{1,64})(?:/rounds/([0-9]{1,9}))?/([a-z]{1,16})/?")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KNOWN = frozenset({"health", "setup", PREDICT, WEBHOOK, "judge", "versions", "status", "metrics"})
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
_encode = json.JSONEncoder(separators=(",", ":")).encode
_log = logging.getLogger(__name__)


class BodyReader:
    """Parses the bodies of requests, which the server has received completely."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._large = ConcurrencyLimiter(at_once=1, room=8)

    def json(self, environ: Environ, deadline: float) -> object:
        """Return the parsed body; raise a RequestRefused if it cannot be read."""
        length = _length(environ)
        if length > self._max_bytes:
            raise RequestTooLarge(f"the body is larger than {self._max_bytes:,} bytes; send fewer tasks at a time")
        # A page of another site can make a browser send any other type without asking us first.
        if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != JSON:
            raise InvalidRequest(f"send JSON, with the header Content-Type: {JSON}")
        body: bytes = environ["wsgi.input"].read(length)
        if length <= LARGE_BYTES:
            return _parsed(body)
        with self._large.slot(deadline):
            return _parsed(body)


def _length(environ: Environ) -> int:
    length = environ.get("CONTENT_LENGTH") or "0"
    if not length.isascii() or not length.isdigit() or len(length) > 18:
        raise InvalidRequest("Content-Length is not a number")
    return int(length)


def _parsed(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except RecursionError as error:
        raise InvalidRequest("the body is nested too deeply; send plain tasks") from error
    except ValueError as error:
        raise InvalidRequest("the body is not JSON; send one JSON object in UTF-8") from error
    return parsed


@dataclass(slots=True)
class _Request:
    """A request as its first line describes it."""

    id: str
    arrived: float
    task: str
    round: int | None
    action: str


class _Body:
    """A response body, and what to do after it was sent: the client does not wait for bookkeeping."""

    __slots__ = ("_body", "close")

    def __init__(self, body: bytes, close: Callable[[], None]) -> None:
        self._body = body
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        yield self._body


class BackendMiddleware:
    """The WSGI application around Flask's."""

    def __init__(
        self,
        inner: WSGIApplication,
        service: VerdictService,
        metrics: Metrics,
        bodies: BodyReader,
        auth: BasicAuth | None,
    ) -> None:
        self._inner = inner
        self._service = service
        self._metrics = metrics
        self._bodies = bodies
        self._auth = auth
        self._wrong_passwords = WrongPasswordLimiter()
        self._prefix = secrets.token_hex(4)
        self._numbers = count(1)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = self._request(environ)
        predicts = request.action == PREDICT and environ["REQUEST_METHOD"] == "POST"
        refusal = self._refusal(environ, request)
        if refusal is None and not predicts:
            return self._through_flask(environ, start_response, request)
        if predicts:
            self._metrics.arrived()
        reply = refusal or self._predict(environ, request)
        body = _encode(reply.body).encode("ascii")
        headers = [
            ("Content-Type", JSON),
            ("Content-Length", str(len(body))),
            ("X-Request-ID", request.id),
        ]
        start_response(_STATUS_LINES[reply.status], [*headers, *reply.headers])
        seconds = time.monotonic() - request.arrived
        error = reply.detail or reply.body.get("error")
        return _Body(body, lambda: self._record(request, reply.status, seconds, predicts=predicts, error=error))

    def _request(self, environ: WSGIEnvironment) -> _Request:
        given = environ.get("HTTP_X_REQUEST_ID", "")
        request_id = environ[REQUEST_ID] = (
            given if _REQUEST_ID.fullmatch(given) else f"{self._prefix}-{next(self._numbers)}"
        )
        path = environ["PATH_INFO"]
        found = _PATH.fullmatch(path)
        if found is None:
            return _Request(request_id, time.monotonic(), "", None, path.strip("/"))
        task, number, action = found.groups()
        return _Request(request_id, time.monotonic(), task, int(number) if number else None, action)

    def _refusal(self, environ: WSGIEnvironment, request: _Request) -> HttpReply | None:
        """Return the reply to a request without the right password; None if it is allowed."""
        # Label Studio sends no password to the webhook that it registers; its body is not used.
        if self._auth is None or environ["PATH_INFO"] == PUBLIC_PATH or request.action == WEBHOOK:
            return None
        header, address = environ.get("HTTP_AUTHORIZATION"), environ.get("REMOTE_ADDR", "")
        try:
            return None if self._wrong_passwords.check(self._auth, header, address) else unauthorized()
        except TooManyWrongPasswords as error:
            return error_reply(error)

    def _predict(self, environ: WSGIEnvironment, request: _Request) -> HttpReply:
        try:
            body = self._bodies.json(environ, request.arrived + self._service.bulk_timeout)
            return HttpReply(200, self._service.predict(request.task, request.round, body, request.arrived))
        except BackendError as error:
            return error_reply(error)
        except Exception as error:  # noqa: BLE001 - the process's edge: the client gets an answer in any case
            return failure(error, request.id)

    def _through_flask(
        self, environ: WSGIEnvironment, start_response: StartResponse, request: _Request
    ) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Any:
            self._record(request, int(status[:3]), time.monotonic() - request.arrived)
            return start_response(status, [*headers, ("X-Request-ID", request.id)], exc_info)

        return self._inner(environ, start)

    def _record(
        self, request: _Request, status: int, seconds: float, *, predicts: bool = False, error: str | None = None
    ) -> None:
        # Names that clients invent must not become label values.
        task = request.task if self._service.serves(request.task) else ""
        action = request.action if request.action in _KNOWN and (predicts or request.action != PREDICT) else "other"
        self._metrics.answered(task, action, status, seconds)
        # A successful verdict is in the metrics and in the database; a log line for each would cost time.
        level = logging.DEBUG if predicts and status < ERROR_STATUS and seconds < SLOW_SECONDS else logging.INFO
        if _log.isEnabledFor(level):
            details = {"error": error} if error else {}
            data = {"request_id": request.id, "task": task, "round": request.round, "status": status, **details}
            _log.log(level, action, extra={"data": {**data, "ms": round(seconds * 1_000, 2)}})
