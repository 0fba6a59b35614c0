"""Errors as whoever asked can read them: a page for people, JSON for programs."""

from flask import Response, jsonify, make_response, render_template, request

from common.text import sentence
from plugin.labelstudio.editor import own_address
from plugin.web.edge import REQUEST_ID

JSON, HTML = "application/json", "text/html"
# No word about frames: a marketplace's shows this page too, or workers would see an empty one.
POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
# What people read, by the status; of others, what programs read.
PAGES = {
    404: ("There is nothing here", "The address may be cut short or mistyped, or what was here is gone."),
    405: ("Only programs come here", "There is nothing to read at this address, and nothing is wrong with it."),
    500: ("Something failed here", "It is not your fault. Try again in a while; what was stored before is safe."),
    503: ("Not just now", "This server cannot answer at the moment. Try again in a while."),
}
OTHER = "That cannot be done"


def asked_by_person() -> bool:
    """Whether a browser asks; programs that do not say what they want get JSON, as everywhere here."""
    return request.accept_mimetypes.best_match([JSON, HTML]) == HTML


def told(status: int, text: str, *, for_people: str = "", **more: bool) -> Response:
    """The answer to a request that is refused or failed; `more` is for programs, a sentence of its own for people."""
    number = request.environ.get(REQUEST_ID, "")
    if asked_by_person():
        title, usual = PAGES.get(status, (OTHER, sentence(text)))
        words = sentence(for_people) if for_people else usual
        shown = {"status": status, "title": title, "text": words, "number": number}
        response = make_response(render_template("refusal.html", file=own_address, **shown))
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
    else:
        response = jsonify({"error": text, **more, "request_id": number})
    response.headers["Vary"] = "Accept"
    response.status_code = status
    return response
