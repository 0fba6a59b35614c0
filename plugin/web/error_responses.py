"""Error responses: a page for browsers, JSON for programs.

JSON has the message as `error`, and `code`, `retry` and `hint` for programs.
"""

from dataclasses import dataclass

from flask import Response, jsonify, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from common.errors import CodedError, Hint
from common.text import sentence
from plugin.labelstudio.editor import own_address
from plugin.web.middleware import REQUEST_ID

SECONDS_UNTIL_RETRY = 2
INTERNAL_ERROR = "internal_error"
JSON, HTML = "application/json", "text/html"
# Nothing about frames: a marketplace's frame shows this page too, and workers must be able to read it.
POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
# What people read, by status; for other statuses, the message that programs get.
PAGES = {
    404: ("There is nothing here", "The address may be cut short or mistyped, or what was here is gone."),
    405: ("Only programs come here", "There is nothing to read at this address, and nothing is wrong with it."),
    500: ("Something failed here", "It is not your fault. Try again in a while; what was stored before is safe."),
    503: ("Not just now", "This server cannot answer at the moment. Try again in a while."),
}
OTHER = "That cannot be done"


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
        return cls(status, str(error), error.code, error.retry if retry is None else retry, error.hint)

    @classmethod
    def of_http(cls, error: HTTPException) -> "ApiError":
        """Return the response to an error of the web framework; its code is the status' name."""
        return cls(error.code or 400, error.name, error.name.lower().replace(" ", "_").replace("-", "_"))

    def as_data(self) -> dict[str, object]:
        """Return the JSON that programs get."""
        hint = self.hint.as_data() if self.hint else None
        return {"error": self.text, "code": self.code, "retry": self.retry, "hint": hint}


def wants_html() -> bool:
    """Whether a browser asks; programs that do not say what they accept get JSON."""
    return request.accept_mimetypes.best_match([JSON, HTML]) == HTML


def error_response(error: ApiError, *, for_people: str = "") -> Response:
    """Return the response to a request that failed; `for_people` replaces the usual text of the page."""
    number = request.environ.get(REQUEST_ID, "")
    if wants_html():
        title, usual = PAGES.get(error.status, (OTHER, sentence(error.text)))
        words = sentence(for_people) if for_people else usual
        shown = {"status": error.status, "title": title, "text": words, "number": number}
        response = make_response(render_template("error-page.html", file=own_address, **shown))
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
    else:
        response = jsonify({**error.as_data(), "request_id": number})
    response.headers["Vary"] = "Accept"
    response.status_code = error.status
    if error.retry:
        response.headers["Retry-After"] = str(SECONDS_UNTIL_RETRY)
    return response
