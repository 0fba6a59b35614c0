"""Worker pages over HTTP: the page itself, the files that it loads, and the calls of its script.

A call reads the body, calls the use case and returns JSON.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint, Response, jsonify, request

from common.clock import Clock
from crowd.profile import CompletionLink, FormReturn
from ml_backend.judge import Judge
from ml_backend.serving.replies import failure
from plugin.crowd import OURS
from plugin.labelstudio.editor import PAGES, add_files
from plugin.web.language import current_translator
from plugin.web.middleware import GUARDED, REQUEST_ID, SECONDS_UNTIL_RETRY
from plugin.web.work import page_json
from plugin.web.work.access import BROWSER, BrowserGuard, MarketSite, OpenPage, PageLimits, PageTokens
from plugin.web.work.errors import UNFORESEEN, PageError, page_error
from plugin.web.work.html import PageRenderer
from plugin.web.work.page import API, HitPages, error_setup
from round_manager.database.store import LazyStore
from round_manager.services import work as services
from round_manager.services.context import ServiceContext
from round_manager.work.addresses import AddressHasher
from round_manager.work.errors import PageInputUnreadable
from round_manager.work.item_cache import ItemCache
from templates.payloads import Json

# Enough for the longest texts that fields allow; a longer text is refused by its field's own rule.
MOST_BYTES = 1_000_000
PAGE = "page"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PageCalls:
    """The calls of all pages; each is about the session of the page's token."""

    store: LazyStore
    judge: Judge
    clock: Clock
    limits: PageLimits
    worker_return: FormReturn | CompletionLink
    items: ItemCache = field(default_factory=ItemCache)

    def state(self, page: OpenPage) -> Json:
        """Return everything on the page."""
        state = page_json.state_json(services.page_state(self.context(), page.session))
        if page.is_guest:
            state["quiz_is_open"] = state["quiz"] is None
        return {**state, "items": [self._item(page, one) for one in state["items"]]}

    def draft(self, page: OpenPage, item: int, body: Json) -> Json:
        """Store what the editor holds; a guest's tab keeps it itself."""
        draft = {"result": page_json.result_in(body)}
        if page.is_guest:
            return {"stored": False}
        services.save_page_draft(self.context(), page.session, item, draft, read_mark=lambda: page_json.mark_in(body))
        return {}

    def ask(self, page: OpenPage, item: int, body: Json) -> Json:
        """Return what the target says."""
        result = page_json.result_in(body)
        outcome = services.ask_target(
            self.context(),
            self.judge,
            page.session,
            item,
            mark=page_json.mark_in(body),
            read=page_json.reader(result, only_attempt=True),
            draft=None if page.is_guest else {"result": result},
            items=self.items,
            before_asking=lambda at: self.limits.ask(
                at.work.worker_id, at.hit.id, places=None if page.proven_at else at.hit.max_assignments
            ),
        )
        verdict = page_json.verdict_json(outcome.spec, outcome.attempt, outcome.number, outcome.warning)
        return {"verdict": verdict, "tries_used": outcome.used, "again": outcome.repeated}

    def submit(self, page: OpenPage, item: int, body: Json) -> Json:
        """Submit an example."""
        submitted = services.submit_example(
            self.context(),
            page.session,
            item,
            mark=page_json.mark_in(body),
            read=page_json.reader(page_json.result_in(body)),
            active_ms=page_json.active_in(body),
            warn=page_json.flag_in(body, "warn"),
        )
        return self._item(page, page_json.creation_json(submitted))

    def skip(self, page: OpenPage, item: int, body: Json) -> Json:
        """Return the item with another context."""
        shown = services.skip_context(
            self.context(),
            page.session,
            item,
            mark=page_json.mark_in(body),
            reason=page_json.text_in(body, "reason").strip(),
            active_ms=page_json.active_in(body),
        )
        return self._item(page, page_json.creation_json(shown))

    def report(self, page: OpenPage, item: int | None, body: Json) -> Json:
        """Report a problem to the owner."""
        services.report_problem(self.context(), page.session, item, page_json.text_in(body, "text"))
        return {}

    def judgement(self, page: OpenPage, item: int, body: Json) -> Json:
        """Store a judgement; what the editor held comes back with it."""
        draft = {"result": page_json.result_in(body)} if "result" in body and not page.is_guest else None
        spec, judged = services.judge_example(
            self.context(),
            page.session,
            item,
            read=lambda spec, shown: page_json.judgement_in(spec, shown, body),
            draft=draft,
            active_ms=page_json.active_in(body),
        )
        return self._item(page, page_json.validation_json(spec, judged))

    def quiz(self, page: OpenPage, body: Json) -> Json:
        """Score the answers of a quiz."""
        taken = services.take_quiz(self.context(), page.session, page_json.answers_in(body))
        return page_json.quiz_json(taken.spec, taken.result, taken.attempts_left)

    def quiz_draft(self, page: OpenPage, body: Json) -> Json:
        """Store the answers that are chosen so far; a guest's tab keeps them itself."""
        answers = page_json.answers_in(body)
        if page.is_guest:
            return {"stored": False}
        services.save_quiz_draft(self.context(), page.session, answers)
        return {}

    def instructions(self, page: OpenPage, body: Json) -> Json:
        """Remember that the worker has read the instructions."""
        services.record_instructions_read(self.context(), page.session, page_json.text_in(body, "version"))
        return {}

    def beat(self, page: OpenPage, body: Json) -> Json:
        """Store the page's active time, and return what is believed of it."""
        active = page_json.active_in(body)
        if active is None:
            raise PageInputUnreadable
        return {"active_ms": services.record_active_time(self.context(), page.session, active)}

    def finish(self, page: OpenPage) -> Json:
        """Return the form that submits the HIT on the marketplace; the same one each time."""
        work = services.finish_page(self.context(), page.session)
        answers = {"session": work.public_id.hex}
        form = self.worker_return.form(page.submit_to, work.claimed_assignment, answers)
        return {"submit": {"url": form.url, "method": form.method, "fields": dict(form.fields)}}

    def context(self) -> ServiceContext:
        """Return what the use cases work with."""
        return ServiceContext(self.store.open(), self.clock)

    @staticmethod
    def _item(page: OpenPage, item: Json) -> Json:
        return page_json.for_guest(item) if page.is_guest else item


def work_blueprint(
    pages: HitPages, calls: PageCalls, tokens: PageTokens, site: MarketSite, limits: PageLimits, hasher: AddressHasher
) -> Blueprint:
    """Return the routes below `/hits` and `/work`, with the files of the page and of Label Studio's editor."""
    blueprint = Blueprint("work", __name__, template_folder=str(PAGES))
    add_files(blueprint)
    renderer = PageRenderer()

    def hit_page(hit: str) -> Response:
        return renderer.response(pages.setup(hit, request.args.to_dict()))

    blueprint.add_url_rule("/hits/<hit>", PAGE, hit_page)

    guard = BrowserGuard(calls.context, hasher)

    def open_page() -> OpenPage:
        page = tokens.read(request.headers.get("Authorization", ""))
        limits.call(page.session)
        return guard.admit(page, request.headers.get(BROWSER, ""), request.remote_addr or "")

    _call_rules(blueprint, calls, open_page)
    _errors(blueprint, renderer)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers.update({"Content-Security-Policy": site.content_policy, OURS: "1"})
        # Files say themselves how long they may be kept; the back button must not show an outdated page.
        for name, value in GUARDED.items():
            response.headers.setdefault(name, value)
        return response

    return blueprint


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
            return _translated(call(open_page(), item, _body()))

        blueprint.add_url_rule(f"{API}/items/<int:item>/{name}", name, view, methods=[method])
    blueprint.add_url_rule(f"{API}/state", "state", lambda: _translated(calls.state(open_page())))
    of_pages: dict[str, tuple[str, str, Callable[[OpenPage, Json], Json]]] = {
        "quiz": ("POST", "quiz", calls.quiz),
        "quiz_draft": ("PUT", "quiz/draft", calls.quiz_draft),
        "beat": ("POST", "beat", calls.beat),
        "report_page": ("POST", "report", lambda page, body: calls.report(page, None, body)),
        "instructions": ("POST", "instructions", calls.instructions),
    }
    for name, (method, path, on_page) in of_pages.items():

        def page_view(on_page: Callable[[OpenPage, Json], Json] = on_page) -> Json:
            return _translated(on_page(open_page(), _body()))

        blueprint.add_url_rule(f"{API}/{path}", name, page_view, methods=[method])
    blueprint.add_url_rule(f"{API}/finish", "finish", lambda: calls.finish(open_page()), methods=["POST"])


def _errors(blueprint: Blueprint, renderer: PageRenderer) -> None:
    @blueprint.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        found = page_error(error)
        if found.status == UNFORESEEN:
            failure(error, request.environ[REQUEST_ID])
        elif found.status > UNFORESEEN:
            # Workers read that they have to wait; the log says why.
            data = {"request_id": request.environ[REQUEST_ID], "error": str(error)}
            _log.warning("a worker's page has to wait", extra={"data": data})
        return _error_response(found, renderer)


def _error_response(error: PageError, renderer: PageRenderer) -> Response:
    is_page = (request.endpoint or "").rpartition(".")[2] == PAGE
    response = renderer.response(error_setup(error)) if is_page else jsonify(_translated(error.as_data()))
    response.status_code = error.status
    if error.retry:
        response.headers["Retry-After"] = str(SECONDS_UNTIL_RETRY)
    return response


def _translated(data: Json) -> Json:
    """Return a response with its messages in the language of the page."""
    translated: Json = current_translator().data(data)
    return translated


def _body() -> dict[str, Any]:
    request.max_content_length = MOST_BYTES
    try:
        body = json.loads(request.get_data(cache=False) or b"{}")
    except (ValueError, RecursionError) as error:
        raise PageInputUnreadable from error
    if not isinstance(body, dict):
        raise PageInputUnreadable
    return body
