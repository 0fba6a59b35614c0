"""The workers' pages over HTTP: the page itself, the files that it loads, and the calls of its script."""

import gzip
import json
import logging
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from common.text import sentence
from ml_backend.serving.replies import failure
from plugin.labelstudio.editor import PAGES, add_files, own_address
from plugin.page_check import OURS
from plugin.web.edge import REQUEST_ID, whole_body
from plugin.web.work.calls import PageCalls
from plugin.web.work.errors import SECONDS_UNTIL_RETRY, BadCall, Trouble, trouble_of
from plugin.web.work.limits import Limits
from plugin.web.work.page import API, HitPages, error_setup
from plugin.web.work.site import MarketSite
from plugin.web.work.tokens import PageHeld, PageTokens
from plugin.web.work.written import UNREADABLE
from templates.payloads import Json

# All that the longest allowed texts can come to; what is longer for its field is told by the field's own rule.
MOST_BYTES = 1_000_000
PAGE = "page"
UNFORESEEN = 500
TOO_LONG = "this is too long to be sent; shorten your text"
STORED = ("editor_file", "font", "own_file")
GIVE_BACK = "Return this HIT, please"
TITLES = {
    "over": "The time is over",
    "refused": "This HIT cannot be opened",
    "changed": "This HIT cannot be opened",
    "gone": "This link does not work",
    "slow_down": "One moment, please",
    "away": "We cannot be reached just now",
}
_log = logging.getLogger(__name__)


def work_blueprint(
    pages: HitPages, calls: PageCalls, tokens: PageTokens, site: MarketSite, limits: Limits
) -> Blueprint:
    """Everything below `/hits` and `/work`, with the files of the page and of Label Studio's editor."""
    blueprint = Blueprint("work", __name__, template_folder=str(PAGES))
    add_files(blueprint)
    blueprint.add_url_rule("/hits/<hit>", PAGE, _page_view(pages))

    def held() -> PageHeld:
        page = tokens.read(request.headers.get("Authorization", ""))
        limits.call(page.session)
        return page

    _call_rules(blueprint, calls, held)
    _errors(blueprint)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers[OURS] = "1"
        response.headers["Content-Security-Policy"] = site.content_policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        if (request.endpoint or "").rpartition(".")[2] not in STORED:
            # What came back with the back button would be of another time.
            response.headers["Cache-Control"] = "no-store"
        return response

    return blueprint


def _page_view(pages: HitPages) -> Callable[[str], Response]:
    def page(hit: str) -> Response:
        return _rendered(pages.setup(hit, request.args.to_dict()))

    return page


def _call_rules(blueprint: Blueprint, calls: PageCalls, held: Callable[[], PageHeld]) -> None:
    of_items: dict[str, tuple[str, Callable[[PageHeld, int, Json], Json]]] = {
        "draft": ("PUT", calls.draft),
        "tries": ("POST", calls.ask),
        "hand-in": ("POST", calls.hand_in),
        "skip": ("POST", calls.skip),
        "report": ("POST", calls.report),
        "judgement": ("POST", calls.judgement),
    }
    for name, (method, call) in of_items.items():

        def view(item: int, call: Callable[[PageHeld, int, Json], Json] = call) -> Json:
            return call(held(), item, _body())

        blueprint.add_url_rule(f"{API}/items/<int:item>/{name}", name, view, methods=[method])
    blueprint.add_url_rule(f"{API}/state", "state", lambda: calls.state(held()))
    blueprint.add_url_rule(f"{API}/quiz", "quiz", lambda: calls.quiz(held(), _body()), methods=["POST"])
    blueprint.add_url_rule(f"{API}/beat", "beat", lambda: calls.beat(held(), _body()), methods=["POST"])
    blueprint.add_url_rule(
        f"{API}/report", "report_page", lambda: calls.report(held(), None, _body()), methods=["POST"]
    )
    blueprint.add_url_rule(f"{API}/finish", "finish", lambda: calls.finish(held()), methods=["POST"])


def _errors(blueprint: Blueprint) -> None:
    @blueprint.errorhandler(HTTPException)
    def odd(error: HTTPException) -> Response:
        code = error.code or 400
        text = TOO_LONG if isinstance(error, RequestEntityTooLarge) else error.name
        is_ours = code >= UNFORESEEN
        return _told(Trouble(code, "away" if is_ours else "refused", sentence(text), retry=is_ours))

    @blueprint.errorhandler(Exception)
    def wrong(error: Exception) -> Response:
        trouble = trouble_of(error)
        if trouble.status == UNFORESEEN:
            failure(error, request.environ[REQUEST_ID])
        elif trouble.status > UNFORESEEN:
            # Workers are told to come back; whoever runs this, why.
            data = {"request_id": request.environ[REQUEST_ID], "error": str(error)}
            _log.warning("a worker's page has to wait", extra={"data": data})
        return _told(trouble)


def _told(trouble: Trouble) -> Response:
    if (request.endpoint or "").rpartition(".")[2] == PAGE:
        title = GIVE_BACK if trouble.give_back else TITLES[trouble.kind]
        response = _rendered(error_setup(title, trouble.text, give_back=trouble.give_back))
    else:
        response = jsonify({"error": trouble.text, "kind": trouble.kind, "retry": trouble.retry})
    response.status_code = trouble.status
    if trouble.retry:
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
        body = json.loads(whole_body() or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadCall(UNREADABLE) from error
    if not isinstance(body, dict):
        raise BadCall(UNREADABLE)
    return body
