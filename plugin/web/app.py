"""The web app: health, metrics, the front page, the intake of attempts, webhooks, and the process that serves it."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, jsonify, render_template, request
from werkzeug.exceptions import HTTPException
from werkzeug.middleware.proxy_fix import ProxyFix

from common.errors import Hint
from ml_backend.errors import BackendError, RegistryError, VerdictError
from ml_backend.registry.pins import check_task
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.metrics import CONTENT_TYPE
from ml_backend.serving.replies import failure
from plugin.attempt_delivery import MAX_BYTES, PATH, SIGNATURE, TIME, InvalidSignature, check_signature
from plugin.backend_client import BackendJudge
from plugin.crowd import HitLinks
from plugin.errors import PluginError
from plugin.labelstudio.editor import PAGES, own_addresses
from plugin.web import middleware
from plugin.web.background import Housekeeping, ReadingLoop
from plugin.web.data_routes import data_pages
from plugin.web.inquiries import inquiry_routes
from plugin.web.language import add_languages
from plugin.web.leaderboard.routes import leaderboard_pages
from plugin.web.submission_routes import submission_routes
from plugin.web.work.access import MarketSite, PageLimits, PageTokens
from plugin.web.work.page import AcceptanceCheck, HitPages, PackCache
from plugin.web.work.routes import PageCalls, work_blueprint
from plugin.wiring import Application
from round_manager.database.store import LazyStore
from round_manager.errors import RoundManagerError
from round_manager.labelstudio.projects import WEBHOOK_HEADER, is_webhook_secret
from round_manager.services.attempts import AttemptIntake
from round_manager.services.context import ServiceContext
from round_manager.work.addresses import AddressHasher

MOST_ATTEMPTS = 1_000
NOT_A_BATCH = "the body is not a batch of attempts; send what `AttemptSender` sends"


class InvalidBatch(PluginError):
    """A body that is not a batch of attempts."""


class UnknownTaskName(PluginError):
    """A path that names no task."""


def ignore_hint(_task: str) -> None:
    """Do nothing: this process does not read Label Studio."""


def web_app(
    store: LazyStore,
    intake: AttemptIntake,
    secrets: Sequence[str],
    *,
    metrics: middleware.WebMetrics | None = None,
    hint: Callable[[str], None] = ignore_hint,
    pages: Sequence[Blueprint] = (),
    most_bytes: int = MAX_BYTES,
    proxies: int = 0,
) -> Flask:
    """Return the web app; `hint` is called with the task for which Label Studio sent a webhook.

    `proxies` is the number of trusted reverse proxies in front of it. Without any, a client's address is its socket's.
    """
    app = Flask("outfox", static_folder=None, template_folder=str(PAGES))
    app.config["MAX_CONTENT_LENGTH"] = most_bytes
    add_languages(app)
    figures = metrics or middleware.WebMetrics()
    middleware.add_request_logging(app, figures)
    _operators_routes(app, store, figures)
    app.add_url_rule(PATH, "attempts", _attempts_view(intake, secrets, figures), methods=["POST"])
    _label_studio_route(app, secrets, hint)
    for one in pages:
        app.register_blueprint(one)
    _errors(app)
    if proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=0)  # type: ignore[method-assign]
    return app


def _operators_routes(app: Flask, store: LazyStore, metrics: middleware.WebMetrics) -> None:
    app.add_url_rule("/health", "health", lambda: store.health.health().as_response())
    app.add_url_rule("/metrics", "metrics", lambda: Response(metrics.page(), content_type=CONTENT_TYPE))


def _attempts_view(intake: AttemptIntake, secrets: Sequence[str], metrics: middleware.WebMetrics) -> Callable[[], Any]:
    """Return the view of POST /api/attempts: signed batches of attempts from backends on other machines."""

    def attempts() -> Any:
        body = request.get_data(cache=False)
        headers = {name: request.headers.get(name, "") for name in (TIME, SIGNATURE)}
        check_signature(secrets, headers, body, time.time())
        found, refused = _read_batch(body)
        taken = intake.take(found)
        refused += [{"id": str(one), "why": reason} for one, reason in taken.refused.items()]
        repeated = len(found) - taken.stored - len(taken.refused)
        metrics.attempts({"stored": taken.stored, "repeated": repeated, "refused": len(refused)})
        return {"stored": taken.stored, "refused": refused}

    return attempts


def _read_batch(body: bytes) -> tuple[list[AttemptRecord], list[dict[str, str]]]:
    """Return the attempts of a batch, and the ids of those that are invalid with the reason."""
    try:
        batch = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidBatch(NOT_A_BATCH) from error
    given = batch.get("tries") if isinstance(batch, dict) else None
    if not isinstance(given, list) or len(given) > MOST_ATTEMPTS:
        raise InvalidBatch(f"{NOT_A_BATCH}, at most {MOST_ATTEMPTS:,} at a time")
    found: list[AttemptRecord] = []
    refused = []
    for one in given:
        try:
            found.append(AttemptRecord.from_json(one))
        except (VerdictError, OverflowError) as error:
            own_id = one.get("id") if isinstance(one, dict) else None
            refused.append({"id": own_id if isinstance(own_id, str) else "", "why": str(error)})
    return found, refused


def _label_studio_route(app: Flask, secrets: Sequence[str], hint: Callable[[str], None]) -> None:
    def webhook(task: str) -> Any:
        # The body may hold the project's invitation token and what people typed. Nothing in it is needed or read.
        if not is_webhook_secret(secrets, task, request.headers.get(WEBHOOK_HEADER, "")):
            text = "the webhook's secret is missing or wrong; connect Label Studio again"
            raise InvalidSignature(text, hint=Hint("connect_label_studio", task=task))
        try:
            hint(check_task(task))
        except RegistryError as error:
            raise UnknownTaskName(str(error)) from error
        return "", 204

    app.add_url_rule("/webhooks/label-studio/<task>", "webhook", webhook, methods=["POST"])


def _errors(app: Flask) -> None:
    @app.errorhandler(PluginError)
    def refused(error: PluginError) -> Response:
        return middleware.error_response(
            middleware.ApiError.of(401 if isinstance(error, InvalidSignature) else 400, error)
        )

    @app.errorhandler(RoundManagerError)
    @app.errorhandler(BackendError)
    def later(error: RoundManagerError | BackendError) -> Response:
        # The server is at fault, not the request: the client keeps it and sends it again.
        return middleware.error_response(middleware.unavailable(error))

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> Response:
        return middleware.error_response(middleware.ApiError.of_http(error))

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        reply = failure(error, request.environ[middleware.REQUEST_ID])
        text = "the web app failed; its log says where"
        return middleware.error_response(middleware.ApiError(reply.status, text, middleware.INTERNAL_ERROR, retry=True))


WHAT = "the web app of Outfox: workers' pages, Label Studio's hints, and the data of closed rounds"
PLACES = {
    "health": "/health",
    "metrics": "/metrics",
    "data": "/data/TASK",
    "leaderboard": "/leaderboard/TASK",
}
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def front_page(lazy_store: LazyStore) -> Blueprint:
    """Return the route `/`: a page for browsers, JSON for programs."""
    blueprint = Blueprint("front", __name__, template_folder=str(PAGES))

    def front() -> Any:
        if not middleware.wants_html():
            return jsonify({"what": WHAT, **PLACES})
        return render_template("front.html", file=own_addresses(), is_up=lazy_store.health.health().error is None)

    blueprint.add_url_rule("/", "front", front)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers.update({**middleware.GUARDED, "Content-Security-Policy": POLICY, "Vary": "Accept"})
        return response

    return blueprint


class ServeProcess:
    """A running process of the web app; it reads Label Studio if the settings have a token for it."""

    def __init__(self, application: Application, shared: Path, *, sync_every: float) -> None:
        settings, store, clock = application.settings, application.lazy_store, application.clock
        self._application = application
        metrics = middleware.WebMetrics()
        self._loop = self._reading(shared, sync_every, metrics)
        inquiries = inquiry_routes(store, clock, settings.crowd_name, settings.crowd_key_secret)
        self.app = web_app(
            store,
            application.attempt_intake(store),
            settings.signing_secrets(),
            metrics=metrics,
            hint=self._loop.hint if self._loop else ignore_hint,
            pages=(
                front_page(store),
                work_pages(application),
                data_pages(settings, store, clock),
                leaderboard_pages(settings, store, clock),
                submission_routes(store, clock, application.submitted_files(), settings.archives_location),
                inquiries,
            ),
            proxies=settings.web_proxies,
        )
        access = application.worker_access if settings.has_crowd_keys else None
        self._housekeeping = Housekeeping(self._context, settings.crowd_name, access, shared)
        self._housekeeping.start()
        if self._loop:
            self._loop.start()

    def close(self, timeout: float) -> None:
        """Stop the threads, and close the database."""
        if self._loop:
            self._loop.stop(timeout)
        self._housekeeping.stop(timeout)
        self._application.lazy_store.close()

    def _reading(self, shared: Path, every: float, metrics: middleware.WebMetrics) -> ReadingLoop | None:
        connected = self._application.connected_label_studio(self._context)
        return ReadingLoop(connected, shared, every=every, count=metrics.read) if connected else None

    def _context(self) -> ServiceContext:
        return ServiceContext(self._application.lazy_store.open(), self._application.clock)


def work_pages(application: Application, limits: PageLimits | None = None) -> Blueprint:
    """Return the pages of the HITs that link to this web app; nothing is read or asked yet."""
    settings, store, clock = application.settings, application.lazy_store, application.clock
    secrets, rates = settings.signing_secrets(), limits or PageLimits()
    tokens, site = PageTokens(secrets), MarketSite(settings.crowd_sites)
    judge = BackendJudge(settings.ml_backend_url, secrets, auth=settings.backend_auth, now=clock.now)
    links, packs = HitLinks(settings.hit_pages, secrets), PackCache(settings.templates_path)
    profile = application.crowd_profile
    acceptance = AcceptanceCheck(profile.page.proof, settings.crowd_key_secret, clock)
    pages = HitPages(store, links, tokens, site, profile.page, acceptance, packs, clock, rates)
    calls = PageCalls(store, judge, clock, rates, profile.worker_return)
    # Of several secrets the last one is current.
    return work_blueprint(pages, calls, tokens, site, rates, AddressHasher(secrets[-1]))
