"""How errors become HTTP: one JSON object with one line that says what to do."""

import logging
import traceback
from dataclasses import dataclass
from typing import Any

from ml_backend.errors import BackendError
from ml_backend.serving.errors import Busy, RequestRefused

SECONDS_UNTIL_RETRY = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HttpReply:
    """A status, a JSON object and the headers that belong to them."""

    status: int
    body: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


def unauthorized() -> HttpReply:
    """For a request without the right user and password."""
    text = "the user or password is missing or wrong; enter them at the ML backend's connection in Label Studio"
    return HttpReply(401, {"error": text}, (("WWW-Authenticate", 'Basic realm="outfox"'),))


def refusal(error: BackendError) -> HttpReply:
    """What a caller is told of an error of ours: what to do about it, and when to come back where that helps."""
    if isinstance(error, RequestRefused):
        return HttpReply(error.status, {"error": str(error)})
    # Whatever else is wrong is wrong here, and not with the request.
    after = error.after if isinstance(error, Busy) else SECONDS_UNTIL_RETRY
    return HttpReply(503, {"error": str(error), "retry_after": after}, (("Retry-After", str(after)),))


def failure(error: Exception, request_id: str) -> HttpReply:
    """What a caller is told of an error that nobody foresaw; the log tells where it was.

    It does not tell what the error says, for that can hold what people typed.
    """
    where = [line.strip() for line in traceback.format_tb(error.__traceback__)]
    data = {"request_id": request_id, "error": type(error).__name__, "where": where}
    _log.error("a request failed", extra={"data": data})
    return HttpReply(500, {"error": "the backend failed; its log tells where", "request_id": request_id})
