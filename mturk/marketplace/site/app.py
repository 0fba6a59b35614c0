"""The worker site: all pages, with one set of security headers and error pages."""

import hashlib
import logging
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, Request, Response, abort, g, make_response, render_template, request, send_from_directory
from jinja2 import StrictUndefined
from werkzeug.exceptions import BadRequest, HTTPException, NotFound, RequestEntityTooLarge

from common.translation import SCRIPT, SCRIPT_FOLDER
from mturk.marketplace.errors import MarketDatabaseError, MarketError
from mturk.marketplace.inquiries import Inquirer
from mturk.marketplace.market import Market
from mturk.marketplace.services.work import find_submission
from mturk.marketplace.site import texts
from mturk.marketplace.site.auth import SiteAuth
from mturk.marketplace.site.earnings import EarningsPages
from mturk.marketplace.site.frame import ACCEPTED_PATH, outcome_page, receive_submission
from mturk.marketplace.site.language import add_languages
from mturk.marketplace.site.texts import FILTERS, StatusPage, StatusPageError, notice_of
from mturk.marketplace.site.work import WorkPages
from mturk.profile import SUBMIT_PATH

PAGES = Path(__file__).resolve().parent / "pages"
OPEN_FILES = (".css", ".js", ".svg")
# URL encoding can triple the size of answers.
MAX_BODY_BYTES = 2_000_000
MAX_FIELDS = 10_000
RETRY_SECONDS = 2
FILE_CACHE_SECONDS = 365 * 24 * 3_600
_log = logging.getLogger(__name__)


class SiteRequest(Request):
    """A request whose form, if it breaks off, is the client's fault."""

    def _load_form_data(self) -> None:
        try:
            super()._load_form_data()
        except (HTTPException, TimeoutError):
            raise
        except Exception as error:  # The server in front may raise anything for a body that breaks off.
            raise BadRequest from error


def worker_site(market: Market, public_url: str) -> Flask:
    """Return the site; `public_url` is its URL for workers' browsers and requesters' pages."""
    app = Flask("outfox_marketplace", static_folder=None, template_folder=str(PAGES))
    app.request_class = SiteRequest
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY_BYTES
    app.config["MAX_FORM_PARTS"] = MAX_FIELDS
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(FILTERS)
    add_languages(app)
    auth = SiteAuth(market, public_url)
    inquirer = Inquirer()
    for pages in (auth, WorkPages(auth, inquirer), EarningsPages(auth, inquirer)):
        app.register_blueprint(pages.blueprint())
    submit = partial(receive_submission, market)
    for path in (SUBMIT_PATH, f"{ACCEPTED_PATH}<secret>{SUBMIT_PATH}"):
        app.add_url_rule(path, "submit", submit, methods=["GET", "POST"])
    _add_files(app)
    _add_page_hooks(app, auth, market)
    _add_error_pages(app)
    return app


def _add_files(app: Flask) -> None:
    files = {one.name: one for one in (*PAGES.iterdir(), SCRIPT_FOLDER / SCRIPT)}
    versions = {name: hashlib.sha256(one.read_bytes()).hexdigest()[:10] for name, one in files.items()}

    def file(name: str) -> Response:
        if not name.endswith(OPEN_FILES):
            abort(404)
        # A URL with the current version may be cached: a changed file gets another version.
        max_age = FILE_CACHE_SECONDS if request.args.get("v") == versions.get(name) else 0
        return send_from_directory(SCRIPT_FOLDER if name == SCRIPT else PAGES, name, max_age=max_age)

    app.add_url_rule("/pages/<name>", "file", file)
    app.jinja_env.globals["file"] = lambda name: f"/pages/{name}?v={versions[name]}"


def _add_page_hooks(app: Flask, auth: SiteAuth, market: Market) -> None:
    @app.before_request
    def start() -> None:
        g.started = time.monotonic()

    @app.context_processor
    def page_context() -> dict[str, Any]:
        visitor, said = auth.visitor(), request.args.get("said", "")
        of = request.args.get("of", "")
        submission = find_submission(market, of, visitor.worker_id) if of and visitor else None
        return {"visitor": visitor, "notice": notice_of(said, submission), "here": ""}

    @app.after_request
    def finish(response: Response) -> Response:
        auth.renew(response)
        for name, value in _security_headers().items():
            response.headers[name] = value
        if request.endpoint != "file":
            response.headers["Cache-Control"] = "no-store"
        milliseconds = round((time.monotonic() - g.started) * 1_000, 2)
        # The route, not the path: sign-in links and ids must not be logged.
        data = {"status": response.status_code, "ms": milliseconds}
        _log.info(request.endpoint or "other", extra={"data": data})
        return response


def _security_headers() -> dict[str, str]:
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
        # This page is shown in a frame of the requester's page, on any origin.
        del policy["frame-ancestors"]
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        # Sign-in links are URLs: they must not be sent to other sites.
        "Referrer-Policy": "same-origin",
        **({} if framed else {"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}),
    }


def _add_error_pages(app: Flask) -> None:
    @app.errorhandler(StatusPageError)
    def site_error(error: StatusPageError) -> Any:
        return _show(error.page)

    @app.errorhandler(MarketError)
    def market_error(error: MarketError) -> Any:
        return _show(texts.page_for_error(error))

    @app.errorhandler(MarketDatabaseError)
    def unavailable(error: MarketDatabaseError) -> Any:
        _log.warning("a page has to wait: %s", error)
        # Without looking it up again, which would wait for the database once more.
        g.visitor = None
        response = make_response(_show(texts.UNAVAILABLE))
        response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response

    @app.errorhandler(RequestEntityTooLarge)
    def too_large(_error: RequestEntityTooLarge) -> Any:
        if (request.content_length or MAX_BODY_BYTES) < MAX_BODY_BYTES:
            return _show(texts.TOO_MANY_FIELDS)
        return _show(texts.TOO_LARGE)

    @app.errorhandler(HTTPException)
    def other(error: HTTPException) -> Any:
        if isinstance(error, NotFound):
            return _show(texts.NOT_FOUND)
        return _show(replace(texts.NOT_POSSIBLE, status=error.code or 400))

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Any:
        _log.error("the worker site failed", exc_info=error)
        g.visitor = None
        return _show(texts.FAILED)


def _show(page: StatusPage) -> Any:
    if request.endpoint == "submit":
        g.framed = True
        return outcome_page(page)
    return render_template("error.html", page=page), page.status
