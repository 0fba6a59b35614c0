"""Worker pages over HTTP: the page itself, the files that it loads, and the calls of its script."""

import gzip
import json
import logging
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request

from ml_backend.serving.replies import failure
from plugin.crowd import OURS
from plugin.labelstudio.editor import PAGES, add_files, own_address
from plugin.web.error_responses import SECONDS_UNTIL_RETRY
from plugin.web.middleware import REQUEST_ID, read_body
from plugin.web.work.access import MarketSite, OpenPage, PageLimits, PageTokens
from plugin.web.work.calls import PageCalls
from plugin.web.work.errors import UNFORESEEN, PageError, page_error
from plugin.web.work.page import API, HitPages, error_setup
from round_manager.work.errors import PageInputUnreadable
from templates.payloads import Json

# Enough for the longest texts that fields allow; a longer text is refused by its field's own rule.
MOST_BYTES = 1_000_000
PAGE = "page"
STORED = ("editor_file", "font", "own_file")
_log = logging.getLogger(__name__)


def work_blueprint(
    pages: HitPages, calls: PageCalls, tokens: PageTokens, site: MarketSite, limits: PageLimits
) -> Blueprint:
    """Return the routes below `/hits` and `/work`, with the files of the page and of Label Studio's editor."""
    blueprint = Blueprint("work", __name__, template_folder=str(PAGES))
    add_files(blueprint)
    blueprint.add_url_rule("/hits/<hit>", PAGE, _page_view(pages))

    def open_page() -> OpenPage:
        page = tokens.read(request.headers.get("Authorization", ""))
        limits.call(page.session)
        return page

    _call_rules(blueprint, calls, open_page)
    _errors(blueprint)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers[OURS] = "1"
        response.headers["Content-Security-Policy"] = site.content_policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        if (request.endpoint or "").rpartition(".")[2] not in STORED:
            # The back button must not show an outdated page.
            response.headers["Cache-Control"] = "no-store"
        return response

    return blueprint


def _page_view(pages: HitPages) -> Callable[[str], Response]:
    def page(hit: str) -> Response:
        return _rendered(pages.setup(hit, request.args.to_dict()))

    return page


def _call_rules(blueprint: Blueprint, calls: PageCalls, open_page: Callable[[], OpenPage]) -> None:
    of_items: dict[str, tuple[str, Callable[[OpenPage, int, Json], Json]]] = {
        "draft": ("PUT", calls.draft),
        "tries": ("POST", calls.ask),
        "hand-in": ("POST", calls.submit),
        "skip": ("POST", calls.skip),
        "report": ("POST", calls.report),
        "judgement": ("POST", calls.judgement),
    }
    for name, (method, call) in of_items.items():

        def view(item: int, call: Callable[[OpenPage, int, Json], Json] = call) -> Json:
            return call(open_page(), item, _body())

        blueprint.add_url_rule(f"{API}/items/<int:item>/{name}", name, view, methods=[method])
    blueprint.add_url_rule(f"{API}/state", "state", lambda: calls.state(open_page()))
    blueprint.add_url_rule(f"{API}/quiz", "quiz", lambda: calls.quiz(open_page(), _body()), methods=["POST"])
    blueprint.add_url_rule(f"{API}/beat", "beat", lambda: calls.beat(open_page(), _body()), methods=["POST"])
    blueprint.add_url_rule(
        f"{API}/report", "report_page", lambda: calls.report(open_page(), None, _body()), methods=["POST"]
    )
    blueprint.add_url_rule(f"{API}/finish", "finish", lambda: calls.finish(open_page()), methods=["POST"])


def _errors(blueprint: Blueprint) -> None:
    @blueprint.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        found = page_error(error)
        if found.status == UNFORESEEN:
            failure(error, request.environ[REQUEST_ID])
        elif found.status > UNFORESEEN:
            # Workers read that they have to wait; the log says why.
            data = {"request_id": request.environ[REQUEST_ID], "error": str(error)}
            _log.warning("a worker's page has to wait", extra={"data": data})
        return _error_response(found)


def _error_response(error: PageError) -> Response:
    is_page = (request.endpoint or "").rpartition(".")[2] == PAGE
    response = _rendered(error_setup(error)) if is_page else jsonify(error.as_data())
    response.status_code = error.status
    if error.retry:
        response.headers["Retry-After"] = str(SECONDS_UNTIL_RETRY)
    return response


def _rendered(setup: Json) -> Response:
    body = render_template("work.html", setup=setup, file=own_address).encode()
    response = Response(body, content_type="text/html; charset=utf-8")
    response.headers["Vary"] = "Accept-Encoding"
    if request.accept_encodings["gzip"]:
        response.set_data(gzip.compress(body, compresslevel=6, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response


def _body() -> dict[str, Any]:
    request.max_content_length = MOST_BYTES
    try:
        body = json.loads(read_body() or b"{}")
    except (ValueError, RecursionError) as error:
        raise PageInputUnreadable from error
    if not isinstance(body, dict):
        raise PageInputUnreadable
    return body
