"""The worker's site: every page in one look, with one set of rules for what browsers may do on it."""

import hashlib
import logging
import time
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, g, render_template, request, send_from_directory
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException, NotFound, RequestEntityTooLarge

from mturk.marketplace import site_told
from mturk.marketplace.errors import MarketError
from mturk.marketplace.market import Market
from mturk.marketplace.site_door import Door
from mturk.marketplace.site_frame import ACCEPTED_PATH
from mturk.marketplace.site_money import MoneyPages
from mturk.marketplace.site_submit import hand_in, outcome
from mturk.marketplace.site_told import NOTICES, Stopped, Told
from mturk.marketplace.site_words import FILTERS
from mturk.marketplace.site_work import WorkPages
from mturk.profile import SUBMIT_PATH

PAGES = Path(__file__).resolve().parent / "pages"
OPEN_FILES = (".css", ".js", ".svg")
# Answers grow to three times their size on their way when each byte is written as %XX.
MOST_BYTES = 2_000_000
MOST_FIELDS = 10_000
DISCARDED_BYTES = 50_000_000
SECONDS_TO_KEEP_FILES = 365 * 24 * 3_600
_log = logging.getLogger(__name__)


def worker_site(market: Market, public_url: str) -> Flask:
    """The site; `public_url` is where workers' browsers and requesters' pages reach it."""
    app = Flask("outfox_marketplace", static_folder=None, template_folder=str(PAGES))
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_FORM_MEMORY_SIZE"] = MOST_BYTES
    app.config["MAX_FORM_PARTS"] = MOST_FIELDS
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(FILTERS)
    door = Door(market, public_url)
    for pages in (door, WorkPages(door), MoneyPages(door)):
        app.register_blueprint(pages.blueprint())
    submit = partial(hand_in, market)
    for path in (SUBMIT_PATH, f"{ACCEPTED_PATH}<secret>{SUBMIT_PATH}"):
        app.add_url_rule(path, "submit", submit, methods=["GET", "POST"])
    _files(app)
    _every_page(app, door)
    _errors(app)
    return app


def _files(app: Flask) -> None:
    marks = {one.name: hashlib.sha256(one.read_bytes()).hexdigest()[:10] for one in PAGES.iterdir()}

    def file(name: str) -> Response:
        if not name.endswith(OPEN_FILES):
            abort(404)
        # Whoever asks with the mark of what it is now may keep it: changed, it has another mark.
        kept = SECONDS_TO_KEEP_FILES if request.args.get("v") == marks.get(name) else 0
        return send_from_directory(PAGES, name, max_age=kept)

    app.add_url_rule("/pages/<name>", "file", file)
    app.jinja_env.globals["file"] = lambda name: f"/pages/{name}?v={marks[name]}"


def _every_page(app: Flask, door: Door) -> None:
    @app.before_request
    def arrive() -> None:
        g.arrived = time.monotonic()

    @app.context_processor
    def shown() -> dict[str, Any]:
        return {"visit": door.visit(), "notice": NOTICES.get(request.args.get("said", "")), "here": ""}

    @app.after_request
    def leave(response: Response) -> Response:
        door.renew(response)
        for name, value in _headers().items():
            response.headers[name] = value
        if request.endpoint != "file":
            response.headers["Cache-Control"] = "no-store"
        milliseconds = round((time.monotonic() - g.arrived) * 1_000, 2)
        # The route, not the path: links and ids must not reach a log.
        data = {"status": response.status_code, "ms": milliseconds}
        _log.info(request.endpoint or "other", extra={"data": data})
        return response


def _headers() -> dict[str, str]:
    policy = {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "img-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "frame-src": " ".join(g.get("frame_origins", ("'none'",))),
    }
    framed = g.get("framed", False)
    if framed:
        # A requester's page shows it in its own frame, wherever that comes from.
        del policy["frame-ancestors"]
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        # Links that sign in are addresses: no other site may learn them.
        "Referrer-Policy": "same-origin",
        **({} if framed else {"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}),
    }


def _errors(app: Flask) -> None:
    @app.errorhandler(Stopped)
    def stopped(error: Stopped) -> Any:
        return _page(error.told)

    @app.errorhandler(MarketError)
    def refused(error: MarketError) -> Any:
        return _page(site_told.refusal(error))

    @app.errorhandler(RequestEntityTooLarge)
    def too_large(_error: RequestEntityTooLarge) -> Any:
        if (request.content_length or MOST_BYTES) < MOST_BYTES:
            return _page(site_told.TOO_MANY_FIELDS)
        _discard_body()
        return _page(site_told.TOO_LARGE)

    @app.errorhandler(TimeoutError)
    def silent(_error: TimeoutError) -> Any:
        return _page(site_told.SILENT)

    @app.errorhandler(HTTPException)
    def other(error: HTTPException) -> Any:
        if isinstance(error, NotFound):
            return _page(site_told.NOT_FOUND)
        return _page(Told(error.code or 400, error.name, "That is not possible here."))

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Any:
        _log.error("the worker's site failed", exc_info=error)
        g.visit = None
        return _page(site_told.FAILED)


def _page(told: Told) -> Any:
    if request.endpoint == "submit":
        g.framed = True
        return outcome(told)
    return render_template("error.html", told=told), told.status


def _discard_body() -> None:
    """Takes in what nobody wants: many browsers hear no answer while they are still sending."""
    left = min(request.content_length or 0, DISCARDED_BYTES)
    stream = request.environ["wsgi.input"]
    while left > 0 and (piece := stream.read(min(left, 65_536))):
        left -= len(piece)
