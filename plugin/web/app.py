"""The web app over HTTP: health, metrics, the intake of attempts, Label Studio's hints, and the pages."""

from collections.abc import Callable, Sequence
from typing import Any

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import HTTPException

from ml_backend.errors import BackendError
from ml_backend.registry.errors import RegistryError
from ml_backend.registry.pins import check_task
from ml_backend.serving.replies import failure
from plugin.attempt_delivery import MAX_BYTES, PATH, AttemptIntake, InvalidSignature
from plugin.errors import PluginError
from plugin.labelstudio.editor import PAGES
from plugin.lazy_store import LazyStore
from plugin.web.edge import REQUEST_ID, discard_body, note_requests
from plugin.web.intake import attempts_route
from plugin.web.metrics import CONTENT_TYPE, WebMetrics
from plugin.web.refusals import told
from round_manager.errors import RoundManagerError
from round_manager.labelstudio.projects import WEBHOOK_HEADER, is_webhook_secret

SECONDS_UNTIL_RETRY = 2


def ignore_hint(_task: str) -> None:
    """Where nobody reads Label Studio."""


def web_app(
    lazy_store: LazyStore,
    intake: AttemptIntake,
    secrets: Sequence[str],
    *,
    metrics: WebMetrics | None = None,
    hint: Callable[[str], None] = ignore_hint,
    pages: Sequence[Blueprint] = (),
    most_bytes: int = MAX_BYTES,
) -> Flask:
    """The web app as a WSGI application; `hint` is told the task in which something happened in Label Studio."""
    app = Flask("outfox", static_folder=None, template_folder=str(PAGES))
    app.config["MAX_CONTENT_LENGTH"] = most_bytes
    figures = metrics or WebMetrics()
    note_requests(app, figures)
    _operators_routes(app, lazy_store, figures)
    app.add_url_rule(PATH, "attempts", attempts_route(intake, secrets, figures), methods=["POST"])
    _label_studio_route(app, secrets, hint)
    for one in pages:
        app.register_blueprint(one)
    _errors(app)
    return app


def _operators_routes(app: Flask, lazy_store: LazyStore, metrics: WebMetrics) -> None:
    def health() -> Any:
        try:
            schema = lazy_store.open().check()
            schema.require_current()
        except RoundManagerError as error:
            return {"status": "DOWN", "error": str(error)}, 503
        return {"status": "UP", "revision": schema.found}

    def page() -> Any:
        return Response(metrics.page(), content_type=CONTENT_TYPE)

    app.add_url_rule("/health", "health", health)
    app.add_url_rule("/metrics", "metrics", page)


def _label_studio_route(app: Flask, secrets: Sequence[str], hint: Callable[[str], None]) -> None:
    def webhook(task: str) -> Any:
        # The body can hold the project's invitation token and what people typed. It is a hint: nothing in it is needed.
        discard_body()
        if not is_webhook_secret(secrets, task, request.headers.get(WEBHOOK_HEADER, "")):
            raise InvalidSignature("the secret is missing or wrong; run `outfox labelstudio connect` again")
        try:
            hint(check_task(task))
        except RegistryError as error:
            raise PluginError(str(error)) from error
        return "", 204

    app.add_url_rule("/webhooks/label-studio/<task>", "webhook", webhook, methods=["POST"])


def _errors(app: Flask) -> None:
    @app.errorhandler(PluginError)
    def refused(error: PluginError) -> Response:
        return told(401 if isinstance(error, InvalidSignature) else 400, str(error))

    @app.errorhandler(RoundManagerError)
    @app.errorhandler(BackendError)
    def later(error: Exception) -> Response:
        # What is wrong is wrong here and not with the request: whoever sent it keeps it and comes back.
        response = _told(503, str(error), retry=True)
        response.headers["Retry-After"] = str(SECONDS_UNTIL_RETRY)
        return response

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> Response:
        return _told(error.code or 400, error.name, retry=False)

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        reply = failure(error, request.environ[REQUEST_ID])
        return _told(reply.status, "the web app failed; its log tells where", retry=True)


def _told(status: int, text: str, *, retry: bool) -> Response:
    """Readers of data are told whether to ask again, also at addresses that no route of the data has."""
    if f"{request.path}/".startswith("/data/"):
        return told(status, text, retry=retry)
    return told(status, text)
