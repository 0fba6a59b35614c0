"""The edge of the backend: what holds for every request, and the short way for the one that has to be fast.

A predict call is answered here, beside Flask, whose routing and request objects would take longer than all the rest of
it; everything else goes on to Flask. All get a request id, the password check, a line in the log and their figures.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from ml_backend.errors import BackendError
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.bodies import BodyReader
from ml_backend.serving.metrics import PREDICT, Metrics
from ml_backend.serving.replying import HttpReply, failure, refusal, unauthorized
from ml_backend.serving.service import VerdictService

REQUEST_ID = "outfox.request_id"
OPEN_TO_ALL = "/health"
WEBHOOK = "webhook"
REFUSED = 400
SLOW = 0.5

_PATH = re.compile(r"/tasks/([a-z0-9_]{1,64})(?:/rounds/([0-9]{1,9}))?/([a-z]{1,16})/?")
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KNOWN = frozenset({"health", "setup", PREDICT, WEBHOOK, "judge", "versions", "status", "metrics"})
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
_encode = json.JSONEncoder(separators=(",", ":")).encode
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Asked:
    """What a request is, as far as its first line tells."""

    id: str
    arrived: float
    task: str
    round: int | None
    what: str


class _Sent:
    """A body, and what is left to do when it is on its way: the caller does not wait for our bookkeeping."""

    __slots__ = ("_body", "close")

    def __init__(self, body: bytes, close: Callable[[], None]) -> None:
        self._body = body
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        yield self._body


class Edge:
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
        self._name = secrets.token_hex(4)
        self._numbers = count(1)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked = self._asked(environ)
        predicts = asked.what == PREDICT and environ["REQUEST_METHOD"] == "POST"
        allowed = self._allows(environ, asked)
        if allowed and not predicts:
            return self._through_flask(environ, start_response, asked)
        if predicts:
            self._metrics.arrived()
        reply = self._predict(environ, asked) if allowed else unauthorized()
        body = _encode(reply.body).encode("ascii")
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("X-Request-ID", asked.id)]
        start_response(_STATUS_LINES[reply.status], [*headers, *reply.headers])
        seconds = time.monotonic() - asked.arrived
        error = reply.body.get("error")
        return _Sent(body, lambda: self._note(asked, reply.status, seconds, predicts=predicts, error=error))

    def _asked(self, environ: WSGIEnvironment) -> _Asked:
        given = environ.get("HTTP_X_REQUEST_ID", "")
        request_id = environ[REQUEST_ID] = given if _GOOD_ID.fullmatch(given) else f"{self._name}-{next(self._numbers)}"
        path = environ["PATH_INFO"]
        found = _PATH.fullmatch(path)
        if found is None:
            return _Asked(request_id, time.monotonic(), "", None, path.strip("/"))
        task, number, what = found.groups()
        return _Asked(request_id, time.monotonic(), task, int(number) if number else None, what)

    def _allows(self, environ: WSGIEnvironment, asked: _Asked) -> bool:
        # Label Studio gives no password to the webhook that it makes by itself; a hint may come from anybody.
        if self._auth is None or environ["PATH_INFO"] == OPEN_TO_ALL or asked.what == WEBHOOK:
            return True
        return self._auth.allows(environ.get("HTTP_AUTHORIZATION"))

    def _predict(self, environ: WSGIEnvironment, asked: _Asked) -> HttpReply:
        try:
            body = self._bodies.json(environ, asked.arrived + self._service.bulk_patience)
            return HttpReply(200, self._service.predict(asked.task, asked.round, body, asked.arrived))
        except BackendError as error:
            return refusal(error)
        except Exception as error:  # noqa: BLE001 - the edge of the process: whatever it is, the caller gets an answer
            return failure(error, asked.id)

    def _through_flask(self, environ: WSGIEnvironment, start_response: StartResponse, asked: _Asked) -> Iterable[bytes]:
        def begin(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Any:
            self._note(asked, int(status[:3]), time.monotonic() - asked.arrived)
            return start_response(status, [*headers, ("X-Request-ID", asked.id)], exc_info)

        return self._inner(environ, begin)

    def _note(
        self, asked: _Asked, status: int, seconds: float, *, predicts: bool = False, error: str | None = None
    ) -> None:
        # Names that callers make up must not become figures of their own.
        task = asked.task if self._service.serves(asked.task) else ""
        what = asked.what if asked.what in _KNOWN and (predicts or asked.what != PREDICT) else "other"
        self._metrics.answered(task, what, status, seconds)
        # A verdict that went well is in the metrics and in the database; a line for each would slow the next one.
        level = logging.DEBUG if predicts and status < REFUSED and seconds < SLOW else logging.INFO
        if _log.isEnabledFor(level):
            told = {"error": error} if error else {}
            data = {"request_id": asked.id, "task": task, "round": asked.round, "status": status, **told}
            _log.log(level, what, extra={"data": {**data, "ms": round(seconds * 1_000, 2)}})
