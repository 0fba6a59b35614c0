"""The ML backend over HTTP: the routes that Label Studio and the web app call, and those for operators."""

import json
import logging
import os
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from common.health import RETRY_AFTER, HealthCheck
from ml_backend.errors import BackendError, InvalidRequest
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.metrics import CONTENT_TYPE, Metrics
from ml_backend.serving.middleware import MAX_BYTES, REQUEST_ID, BackendMiddleware, BodyReader
from ml_backend.serving.questions import project_id
from ml_backend.serving.replies import HttpReply, error_reply, failure, versions_named
from ml_backend.serving.service import VerdictService
from ml_backend.verdict import VerdictSigner

JUDGE = "judge"
IN_THE_LOG = "see the backend's log"
_BODY_SECONDS = 30.0
_log = logging.getLogger(__name__)


def backend_app(
    service: VerdictService,
    *,
    metrics: Metrics | None = None,
    auth: BasicAuth | None = None,
    signer: VerdictSigner | None = None,
    max_bytes: int = MAX_BYTES,
) -> Flask:
    """Return the backend as a WSGI application; `metrics` are those that the service counts with, if any.

    With a signer, it also judges for the web app, which trusts verdicts signed with the shared secret.
    """
    app = Flask("outfox", static_folder=None)
    counted = metrics or Metrics()
    bodies = BodyReader(max_bytes)
    _label_studio_routes(app, service, bodies)
    if signer is not None:
        _judge_route(app, service, bodies, signer)
    _operator_routes(app, service, counted, is_protected=auth is not None)

    @app.errorhandler(BackendError)
    def refused(error: BackendError) -> Response:
        reply = error_reply(error)
        if reply.detail:
            data = {"request_id": request.environ[REQUEST_ID], "code": error.code, "error": reply.detail}
            _log.warning("a request has to wait", extra={"data": data})
        return _response(reply)

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> Response:
        text = f"{error.name}; the routes are /tasks/<task>[/rounds/<n>]/health, setup, predict, webhook and versions"
        code = error.name.lower().replace(" ", "_")
        return _response(HttpReply(error.code or 400, {"error": text, "code": code, "retry": False, "hint": None}))

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        return _response(failure(error, request.environ[REQUEST_ID]))

    app.wsgi_app = BackendMiddleware(app.wsgi_app, service, counted, bodies, auth)  # type: ignore[method-assign]
    return app


def _label_studio_routes(app: Flask, service: VerdictService, bodies: BodyReader) -> None:
    def route(name: str, method: str, view: Callable[..., Any]) -> None:
        for rule in (f"/tasks/<task>/{name}", f"/tasks/<task>/rounds/<int:round_number>/{name}"):
            app.add_url_rule(rule, name, view, methods=[method], strict_slashes=False)

    def body() -> object:
        return bodies.json(request.environ, time.monotonic() + _BODY_SECONDS)

    def health(task: str, round_number: int | None = None) -> Any:
        return {"status": "UP", "model_version": versions_named(service.versions(task, round_number))}

    def setup(task: str, round_number: int | None = None) -> Any:
        # The body carries the owner's access token. Only the schema is read, and nothing is kept.
        service.check_setup(task, body())
        return {"model_version": versions_named(service.versions(task, round_number))}

    def versions(task: str, round_number: int | None = None) -> Any:
        return {"versions": service.versions(task, round_number)}

    def webhook(task: str, round_number: int | None = None) -> Any:
        if not service.serves(task):
            service.check_setup(task, {})
        # Label Studio registers this webhook automatically. The web app reads the annotations; here the event is only
        # checked and dropped, for its body carries the project's invitation token and what people typed.
        event = body()
        action = event.get("action") if isinstance(event, dict) else None
        project = event.get("project") if isinstance(event, dict) else None
        if not isinstance(action, str) or not action.isascii() or len(action) > 64:
            raise InvalidRequest("`action` is missing; send what Label Studio's webhooks send")
        project_id(project.get("id") if isinstance(project, dict) else project)
        return "", 204

    route("health", "GET", health)
    route("setup", "POST", setup)
    route("versions", "GET", versions)
    route("webhook", "POST", webhook)


def _judge_route(app: Flask, service: VerdictService, bodies: BodyReader, signer: VerdictSigner) -> None:
    def judge(task: str, round_number: int | None = None) -> Any:
        arrived = time.monotonic()
        asked = bodies.json(request.environ, arrived + _BODY_SECONDS)
        if not isinstance(asked, dict):
            raise InvalidRequest("send an object with `fields`, `target` and `holder`")
        fields, target, holder = (asked.get(name) for name in ("fields", "target", "holder"))
        if not isinstance(fields, dict) or not all(isinstance(text, str) for text in fields.values()):
            raise InvalidRequest("`fields` must be an object of strings")
        if not (target is None or isinstance(target, str)) or not isinstance(holder, str) or not holder:
            raise InvalidRequest("`target` must be a string or null, and `holder` must name who the verdict is for")
        verdict = service.judge(task, round_number, fields, target, arrived)
        return {"verdict": signer.sign(verdict, holder)}

    for rule in (f"/tasks/<task>/{JUDGE}", f"/tasks/<task>/rounds/<int:round_number>/{JUDGE}"):
        app.add_url_rule(rule, JUDGE, judge, methods=["POST"], strict_slashes=False)


def _operator_routes(app: Flask, service: VerdictService, metrics: Metrics, *, is_protected: bool) -> None:
    def find_waiting() -> dict[str, str]:
        service.sink.check()
        waiting = {}
        for task in service.tasks:
            try:
                service.versions(task, None)
            except BackendError as error:
                waiting[task] = error.summary
        return waiting

    checked = HealthCheck(find_waiting)

    def health() -> Any:
        outcome = checked.health()
        if outcome.error:
            return outcome.as_response()
        # An unhealthy process may be killed: a task that was added later must not take down the others.
        healthy = service.initial_tasks.isdisjoint(outcome.found)
        body = {"status": "LOADING" if outcome.found else "UP", "waiting": outcome.found}
        return (body, 200) if healthy else (body, 503, RETRY_AFTER)

    def status() -> Any:
        state = status_of(service, metrics)
        if not is_protected:
            _hide_errors(state)
        # `default=str` formats the times.
        return Response(json.dumps(state, default=str), content_type="application/json")

    def page() -> Any:
        return Response(metrics.page(), content_type=CONTENT_TYPE)

    app.add_url_rule("/health", "all_health", health)
    app.add_url_rule("/status", "status", status)
    app.add_url_rule("/metrics", "metrics", page)


def _hide_errors(state: object) -> None:
    """Replace the text of every error, which can name paths and hosts: without a password, anyone may read it."""
    for part in state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ():
        _hide_errors(part)
    if isinstance(state, dict):
        state.update({name: IN_THE_LOG for name in ("error", "registry_error") if state.get(name)})


def _response(reply: HttpReply) -> Response:
    response = jsonify(reply.body)
    response.status_code = reply.status
    response.headers.extend(reply.headers)
    return response


def status_of(service: VerdictService, metrics: Metrics) -> dict[str, Any]:
    """Return the queue, load, models, recent latencies, uptime and sink of this process as JSON-compatible data."""
    models = service.models.state()
    return {
        "process": os.getpid(),
        "uptime_seconds": round(time.monotonic() - metrics.began, 1),
        "queue": asdict(service.limiter.load()),
        "load_average": [round(one, 2) for one in os.getloadavg()],
        "memory_mb": round(_resident_bytes() / 1e6, 1),
        "tasks": list(service.tasks),
        "models": asdict(models) if is_dataclass(models) and not isinstance(models, type) else models,
        "predict": metrics.latency(),
        "sink": asdict(service.sink.state()),
    }


def _resident_bytes() -> int:
    """Return the memory in use; if that cannot be read, the peak."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - one line, read often
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
