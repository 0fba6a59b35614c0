"""Replies: the predictions that Label Studio gets back, and errors as HTTP responses."""

import logging
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ml_backend.errors import BackendError, Busy, RequestRefused, TooManyWrongPasswords
from ml_backend.verdict import Verdict, notice_lines, shown_verdict
from templates.label_config import read_elements
from templates.pack import Pack
from templates.payloads import results

FEEDBACK = "feedback"
RETRY_SECONDS = 2
_log = logging.getLogger(__name__)

Json = dict[str, Any]


class Replies:
    """Writes the predictions of one task; its pack says where and in which words a verdict is shown."""

    def __init__(self, pack: Pack) -> None:
        self._spec = pack.spec
        elements = read_elements(pack.create_xml, "create.xml")
        self._places = [element for element in elements if element.name == FEEDBACK]

    def verdict(self, verdict: Verdict, attempt: int | None = None, texts: Mapping[str, str] | None = None) -> Json:
        """Return one task's verdict as a sentence, with the attempt's number and its texts if they are known.

        The result has no id: Label Studio would show a result with a known id as it was before.
        """
        shown = results(self._places, {FEEDBACK: shown_verdict(self._spec, verdict, attempt, texts or {})})
        version = versions_named([one.version for one in verdict.outputs])
        return {"model_version": version, "score": verdict.shown.confidence, "result": shown}

    def notice(self, sentence: str, version: str) -> Json:
        """Return the prediction for a text that cannot be submitted, with the reason."""
        shown = results(self._places, {FEEDBACK: notice_lines(sentence)})
        return {"model_version": version, "score": 0.0, "result": shown}

    def nothing(self, version: str) -> Json:
        """Return the prediction for a task without a verdict yet."""
        return {"model_version": version, "score": 0.0, "result": []}


def reply(answers: list[Json], version: str) -> Json:
    """Return the whole reply: one prediction per task of the call, in order."""
    return {"results": answers, "model_version": version}


def versions_named(versions: list[str]) -> str:
    """Return one name for one version, or for several that answer together."""
    return "+".join(versions)


@dataclass(frozen=True)
class HttpReply:
    """A status, a JSON object and headers; `detail` is what the log says instead of the body's `error`."""

    status: int
    body: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()
    detail: str = ""


def unauthorized() -> HttpReply:
    """Return the reply to a request without the right user and password."""
    text = "the user or password is missing or wrong; enter them in the ML backend's connection in Label Studio"
    body = {"error": text, "code": "unauthorized", "retry": False, "hint": None}
    return HttpReply(401, body, (("WWW-Authenticate", 'Basic realm="outfox"'),))


def error_reply(error: BackendError) -> HttpReply:
    """Return the reply for an expected error; it says when to retry if that helps."""
    body = {"error": str(error), **error.as_data()}
    if isinstance(error, TooManyWrongPasswords):
        return HttpReply(error.status, {**body, "retry_after": error.after}, (("Retry-After", str(error.after)),))
    if isinstance(error, RequestRefused):
        return HttpReply(error.status, body)
    # Any other error is the backend's, not the request's. Its message can name paths and hosts, so it is not sent.
    after = error.after if isinstance(error, Busy) else RETRY_SECONDS
    body = {**body, "error": error.summary, "retry_after": after}
    return HttpReply(503, body, (("Retry-After", str(after)),), detail=str(error))


def failure(error: Exception, request_id: str) -> HttpReply:
    """Log an unexpected error and return the reply for it.

    Neither contains the error's message, which can hold what people typed.
    """
    where = [line.strip() for line in traceback.format_tb(error.__traceback__)]
    data = {"request_id": request_id, "error": type(error).__name__, "where": where}
    _log.error("a request failed", extra={"data": data})
    text = "internal error; see the backend's log"
    return HttpReply(
        500, {"error": text, "code": "internal_error", "retry": False, "hint": None, "request_id": request_id}
    )
