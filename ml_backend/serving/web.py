"""The ML backend over HTTP: the routes that Label Studio calls, and those for whoever runs the backend."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from ml_backend.errors import BackendError
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.bodies import MOST_BYTES, BodyReader
from ml_backend.serving.edge import REQUEST_ID, Edge
from ml_backend.serving.errors import RequestRefused
from ml_backend.serving.metrics import CONTENT_TYPE, Metrics
from ml_backend.serving.questions import project_id
from ml_backend.serving.replies import versions_named
from ml_backend.serving.replying import HttpReply, failure, refusal
from ml_backend.serving.service import VerdictService
from ml_backend.serving.status import status_of
from ml_backend.verdict import VerdictSigner

JUDGE = "judge"
_SECONDS_FOR_A_BODY = 30.0


@dataclass(frozen=True)
class Hint:
    """That something happened in a Label Studio project; what it was must be looked up there."""

    task: str
    action: str
    project: int | None


def ignore_hint(_hint: Hint) -> None:
    """Where nobody wants hints."""


def backend_app(
    service: VerdictService,
    *,
    metrics: Metrics | None = None,
    auth: BasicAuth | None = None,
    hint: Callable[[Hint], None] = ignore_hint,
    signer: VerdictSigner | None = None,
    most_bytes: int = MOST_BYTES,
) -> Flask:
    """The backend as a WSGI application; `metrics` are those that the service was given, if it was given any.

    With a signer it also judges for the web app, which believes what is signed with their common secret.
    """
    app = Flask("outfox", static_folder=None)
    figures = metrics or Metrics()
    bodies = BodyReader(most_bytes)
    _label_studio_routes(app, service, bodies, hint)
    if signer is not None:
        _judge_route(app, service, bodies, signer)
    _operators_routes(app, service, figures)

    @app.errorhandler(BackendError)
    def refused(error: BackendError) -> Response:
        return _response(refusal(error))

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> Response:
        text = f"{error.name}; the routes are /tasks/<task>[/rounds/<n>]/health, setup, predict, webhook and versions"
        return _response(HttpReply(error.code or 400, {"error": text}))

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        return _response(failure(error, request.environ[REQUEST_ID]))

    app.wsgi_app = Edge(app.wsgi_app, service, figures, bodies, auth)  # type: ignore[method-assign]
    return app


def _label_studio_routes(app: Flask, service: VerdictService, bodies: BodyReader, hint: Callable[[Hint], None]) -> None:
    def route(name: str, method: str, view: Callable[..., Any]) -> None:
        for rule in (f"/tasks/<task>/{name}", f"/tasks/<task>/rounds/<int:round_number>/{name}"):
            app.add_url_rule(rule, name, view, methods=[method], strict_slashes=False)

    def body() -> object:
        return bodies.json(request.environ, time.monotonic() + _SECONDS_FOR_A_BODY)

    def health(task: str, round_number: int | None = None) -> Any:
        return {"status": "UP", "model_version": versions_named(service.versions(task, round_number))}

    def setup(task: str, round_number: int | None = None) -> Any:
        # The body carries the owner's access token. Only the schema is looked at, and nothing of it is kept.
        service.check_setup(task, body())
        return {"model_version": versions_named(service.versions(task, round_number))}

    def versions(task: str, round_number: int | None = None) -> Any:
        return {"versions": service.versions(task, round_number)}

    def webhook(task: str, round_number: int | None = None) -> Any:
        if not service.serves(task):
            service.check_setup(task, {})
        told = body()
        # The body carries the project's invitation token and what people typed: only this much goes on.
        action = told.get("action") if isinstance(told, dict) else None
        project = told.get("project") if isinstance(told, dict) else None
        if not isinstance(action, str) or not action.isascii() or len(action) > 64:
            raise RequestRefused(400, "`action` is missing; send what Label Studio's webhooks send")
        number = project.get("id") if isinstance(project, dict) else project
        hint(Hint(task, action, project_id(number)))
        return "", 204

    route("health", "GET", health)
    route("setup", "POST", setup)
    route("versions", "GET", versions)
    route("webhook", "POST", webhook)


def _judge_route(app: Flask, service: VerdictService, bodies: BodyReader, signer: VerdictSigner) -> None:
    def judge(task: str, round_number: int | None = None) -> Any:
        arrived = time.monotonic()
        asked = bodies.json(request.environ, arrived + _SECONDS_FOR_A_BODY)
        if not isinstance(asked, dict):
            raise RequestRefused(400, "send an object with `fields`, `target` and `holder`")
        fields, target, holder = (asked.get(name) for name in ("fields", "target", "holder"))
        if not isinstance(fields, dict) or not all(isinstance(text, str) for text in fields.values()):
            raise RequestRefused(400, "`fields` must be an object of texts")
        if not (target is None or isinstance(target, str)) or not isinstance(holder, str) or not holder:
            raise RequestRefused(400, "`target` must be a text or null, and `holder` say whom the verdict is for")
        verdict = service.judge(task, round_number, fields, target, arrived)
        return {"verdict": signer.sign(verdict, holder)}

    for rule in (f"/tasks/<task>/{JUDGE}", f"/tasks/<task>/rounds/<int:round_number>/{JUDGE}"):
        app.add_url_rule(rule, JUDGE, judge, methods=["POST"], strict_slashes=False)


def _operators_routes(app: Flask, service: VerdictService, metrics: Metrics) -> None:
    def health() -> Any:
        waiting = {}
        for task in service.tasks:
            try:
                service.versions(task, None)
            except BackendError as error:
                waiting[task] = str(error)
        # Whoever asks may end a process that is not well: a task that came later must not cost the others theirs.
        well = service.first_tasks.isdisjoint(waiting)
        return {"status": "LOADING" if waiting else "UP", "waiting": waiting}, 200 if well else 503

    def status() -> Any:
        # Times in it are written as they are read everywhere else.
        return Response(json.dumps(status_of(service, metrics), default=str), content_type="application/json")

    def page() -> Any:
        return Response(metrics.page(), content_type=CONTENT_TYPE)

    app.add_url_rule("/health", "all_health", health)
    app.add_url_rule("/status", "status", status)
    app.add_url_rule("/metrics", "metrics", page)


def _response(reply: HttpReply) -> Response:
    response = jsonify(reply.body)
    response.status_code = reply.status
    response.headers.extend(reply.headers)
    return response
