"""The backend over HTTP: Label Studio's protocol, the operators' routes, and invalid requests."""

import io
import json
import logging
from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from ml_backend.errors import RequestRefused
from ml_backend.serving.auth import MAX_WRONG, BasicAuth
from ml_backend.serving.limiter import ConcurrencyLimiter
from ml_backend.serving.metrics import Metrics
from ml_backend.serving.middleware import BodyReader
from ml_backend.serving.service import VerdictService
from ml_backend.serving.web import backend_app
from ml_backend.verdict import VerdictSigner
from plugin.logs import JsonLines
from templates import Pack
from tests.fakes import calls
from tests.fakes.http_server import busy_server
from tests.fakes.target import FakeTarget
from tests.unit.ml_backend.serving.conftest import ServiceSetup, find_pack

TOKEN = "5ec4e7a11abe15000000000000000000000cafe5"
INVITATION = "1nv17a710n"
TYPED = "What a perfectly private sentence."


@pytest.fixture
def client(setup: ServiceSetup) -> FlaskClient:
    return backend_app(setup.service).test_client()


def predict(client: FlaskClient, pack: Pack, context: list[Any] | None, **more: Any) -> Any:
    return client.post(f"/tasks/{pack.spec.name}/predict", json=calls.predict(pack, context), **more)


def error_code(response: Any) -> str:
    """Return the code of an error response, which has a one-line message, `retry` and `hint` too."""
    assert response.content_type == "application/json"
    error = response.json
    assert error["error"]
    assert "\n" not in error["error"]
    assert isinstance(error["retry"], bool)
    assert "hint" in error
    return str(error["code"])


def test_label_studio_connects_sets_up_and_predicts(client: FlaskClient, pack: Pack) -> None:
    base = f"/tasks/{pack.spec.name}"
    assert client.get(f"{base}/health").json == {"status": "UP", "model_version": "v1"}
    assert client.post(f"{base}/setup", json=calls.setup(pack)).json == {"model_version": "v1"}
    assert client.get(f"{base}/versions").json == {"versions": ["v1"]}
    answer = predict(client, pack, calls.writes(pack, "A text."))
    assert answer.status_code == 200
    assert len(calls.shown(answer.json)) == 1


def test_a_round_has_the_same_routes(client: FlaskClient, setup: ServiceSetup, pack: Pack) -> None:
    setup.models.place(pack.spec.name, FakeTarget(pack.spec, "old"), round=2)
    base = f"/tasks/{pack.spec.name}/rounds/2"
    assert client.get(f"{base}/health").get_json()["model_version"] == "old"
    assert client.post(f"{base}/setup", json=calls.setup(pack)).json == {"model_version": "old"}
    body = calls.predict(pack, calls.writes(pack, "A text."))
    assert client.post(f"{base}/predict", json=body).get_json()["model_version"] == "old"
    assert setup.sink.attempts[0].round == 2


def test_health_is_answered_while_all_threads_are_busy(setup: ServiceSetup) -> None:
    with busy_server(backend_app(setup.service)) as server:
        for path in ("/health", "/tasks/qa/health"):
            assert server.get(path, timeout=3)[0] == 200


def test_a_project_of_another_task_cannot_be_set_up(client: FlaskClient) -> None:
    response = client.post("/tasks/qa/setup", json=calls.setup(find_pack("nli")))
    assert response.status_code == 422
    assert error_code(response) == "labelling_config_mismatch"


@pytest.mark.parametrize("body", [b"", b"{", b"[1,", b"\xff\xfe", b"nonsense", b"[" * 100_000, b'{"a": ' * 50_000])
@pytest.mark.parametrize("route", ["predict", "setup", "webhook"])
def test_a_body_that_is_not_json_is_refused(client: FlaskClient, route: str, body: bytes) -> None:
    response = client.post(f"/tasks/qa/{route}", data=body, content_type="application/json")
    assert response.status_code == 400
    error_code(response)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_page_of_another_site_can_send_is_refused(client: FlaskClient, setup: ServiceSetup, kind: str) -> None:
    body = json.dumps(calls.predict(find_pack("qa"), calls.writes(find_pack("qa"), "What?")))
    response = client.post("/tasks/qa/predict", data=body, content_type=kind)
    assert (response.status_code, error_code(response)) == (400, "invalid_request")
    assert setup.sink.attempts == []
    assert client.post("/tasks/qa/predict", data=body, content_type="application/json").status_code == 200


def test_a_number_with_too_many_digits_is_refused(client: FlaskClient) -> None:
    response = client.post("/tasks/qa/predict", data=b'{"tasks": ' + b"9" * 10_000 + b"}")
    assert response.status_code == 400


def test_a_body_that_is_too_large_is_refused(setup: ServiceSetup) -> None:
    client = backend_app(setup.service, max_bytes=1_000).test_client()
    for route in ("predict", "setup", "webhook"):
        response = client.post(f"/tasks/qa/{route}", data=b"x" * 1_001)
        assert response.status_code == 413
        assert error_code(response) == "request_too_large"


@pytest.mark.parametrize("length", ["x", "-5", "1e3", "٣", "9" * 40])
def test_an_invalid_content_length_is_refused(length: str) -> None:
    with pytest.raises(RequestRefused):
        BodyReader().json({"CONTENT_LENGTH": length, "wsgi.input": io.BytesIO(b"{}")}, float("inf"))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/tasks/poetry/predict", 404),
        ("POST", "/tasks/poetry/setup", 404),
        ("POST", "/tasks/poetry/webhook", 404),
        ("GET", "/tasks/poetry/health", 404),
        ("GET", "/tasks/poetry/versions", 404),
        ("POST", "/predict", 404),
        ("POST", "/tasks/../predict", 404),
        ("POST", "/tasks/qa/rounds/x/predict", 404),
        ("POST", "/tasks/qa/rounds/99999999999999/predict", 404),
        ("GET", "/tasks/qa/predict", 404),
        ("GET", "/tasks/qa/setup", 405),
        ("DELETE", "/tasks/qa/health", 405),
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
    ],
)
def test_unknown_routes_and_methods_are_refused(client: FlaskClient, method: str, path: str, status: int) -> None:
    response = client.open(path, method=method, json={"action": "x"})
    assert response.status_code == status
    error_code(response)


def test_while_the_model_is_loading_responses_say_when_to_retry(client: FlaskClient, setup: ServiceSetup) -> None:
    setup.models.clear()
    pack = find_pack("qa")
    for response in (
        predict(client, pack, calls.writes(pack, "Who?")),
        client.get("/tasks/qa/health"),
        client.post("/tasks/qa/setup", json=calls.setup(pack)),
    ):
        assert response.status_code == 503
        assert int(response.headers["Retry-After"]) >= 1
        assert error_code(response)
        assert response.get_json()["retry"]
    assert client.get("/health").status_code == 503
    assert client.get("/health").get_json()["status"] == "LOADING"


def test_a_new_task_that_is_loading_does_not_make_the_backend_unhealthy(
    setup: ServiceSetup, client: FlaskClient
) -> None:
    pack = setup.packs["qa"]
    setup.packs["riddles"] = pack
    answer = client.get("/health")
    assert (answer.status_code, list(answer.get_json()["waiting"])) == (200, ["riddles"])
    assert client.get("/tasks/riddles/health").status_code == 503
    setup.models.place("riddles", FakeTarget(pack.spec))
    assert client.get("/health").get_json() == {"status": "UP", "waiting": {}}


def test_a_full_backend_refuses_at_once_and_says_when_to_retry(setup: ServiceSetup) -> None:
    limiter = ConcurrencyLimiter(at_once=1, room=0)
    limiter.acquire(float("inf"))
    service = VerdictService(setup.packs, setup.models, setup.sink, setup.clock, limiter=limiter)
    client = backend_app(service).test_client()
    pack = find_pack("qa")
    response = predict(client, pack, calls.writes(pack, "Who?"))
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) == response.json["retry_after"] >= 1
    assert error_code(response) == "busy"


def test_an_unexpected_error_is_answered_and_logged_without_typed_text(
    client: FlaskClient, setup: ServiceSetup, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks() -> None:
        raise RuntimeError(f"cannot read {TYPED}")

    pack = find_pack("sentiment")
    setup.models.place("sentiment", FakeTarget(pack.spec, before=breaks))
    response = predict(client, pack, calls.writes(pack, TYPED))
    assert response.status_code == 500
    assert response.json["request_id"] == response.headers["X-Request-ID"]
    logged = "".join(JsonLines().format(record) for record in caplog.records)
    assert "RuntimeError" in logged
    assert "target.py" in logged
    assert TYPED not in logged


def test_a_valid_request_id_is_kept_and_an_invalid_one_replaced(client: FlaskClient) -> None:
    pack = find_pack("qa")
    for path, more in (("/tasks/qa/predict", {"json": calls.predict(pack)}), ("/tasks/qa/setup", {"json": {}})):
        given = client.post(path, headers={"X-Request-ID": "abc-123"}, **more)
        assert given.headers["X-Request-ID"] == "abc-123"
        for strange in ("x" * 65, "a b", "<script>"):
            response = client.post(path, headers={"X-Request-ID": strange}, **more)
            assert response.headers["X-Request-ID"] not in ("", strange)
    ids = {client.get("/health").headers["X-Request-ID"] for _ in range(3)}
    assert len(ids) == 3


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def test_a_client_that_guesses_passwords_has_to_wait_and_others_do_not(setup: ServiceSetup) -> None:
    client = backend_app(setup.service, auth=BasicAuth("studio", "geheim")).test_client()
    for number in range(MAX_WRONG):
        assert client.get("/status", headers=basic("studio", str(number))).status_code == 401
    for password in ("x", "geheim"):
        response = predict(client, find_pack("qa"), None, headers=basic("studio", password))
        assert response.status_code == 429
        assert error_code(response) == "too_many_wrong_passwords"
        assert response.json["retry"]
        assert 0 < int(response.headers["Retry-After"]) <= 60
    assert client.get("/health").status_code == 200
    client.environ_base["REMOTE_ADDR"] = "10.0.0.9"
    assert client.get("/status", headers=basic("studio", "geheim")).status_code == 200


def test_a_judgement_with_an_unknown_label_as_target_is_refused(setup: ServiceSetup) -> None:
    client = backend_app(setup.service, signer=VerdictSigner(["s" * 32])).test_client()
    body = {"fields": {"text": "A text."}, "target": "poetry", "holder": "a"}
    response = client.post("/tasks/sentiment/judge", json=body)
    assert response.status_code == 400
    assert error_code(response) == "invalid_request"
    assert client.post("/tasks/sentiment/judge", json={**body, "target": "negative"}).status_code == 200


def test_half_an_emoji_is_signed_like_any_other_text(setup: ServiceSetup) -> None:
    signer, half = VerdictSigner(["s" * 32]), "\ud83d"
    client = backend_app(setup.service, signer=signer).test_client()
    body = json.dumps({"fields": {"passage": f"A {half}.", "question": "What?"}, "target": half, "holder": half})
    response: Any = client.post("/tasks/qa/judge", data=body, content_type="application/json")
    assert response.status_code == 200
    verdict = signer.read(response.json["verdict"], half, now=setup.clock.now(), max_age=timedelta(1))
    assert verdict.target == half


def test_a_password_is_required_except_for_health_and_webhook(setup: ServiceSetup) -> None:
    client = backend_app(setup.service, auth=BasicAuth("studio", "grün:geheim")).test_client()
    pack = find_pack("qa")
    wrong: list[dict[str, str]] = [
        {},
        basic("studio", "geheim"),
        basic("Studio", "grün:geheim"),
        {"Authorization": "Basic %%%"},
    ]
    wrong += [{"Authorization": "Bearer x"}, {"Authorization": "Basic"}, {"Authorization": "Basic " + "A" * 9_999}]
    for number, headers in enumerate(wrong):
        client.environ_base["REMOTE_ADDR"] = f"10.0.0.{number}"
        for method, path in (("POST", "/tasks/qa/predict"), ("GET", "/status"), ("GET", "/metrics"), ("GET", "/x")):
            response = client.open(path, method=method, headers=headers, json=calls.predict(pack))
            assert response.status_code == 401
            assert response.headers["WWW-Authenticate"].startswith("Basic")
            error_code(response)
    assert predict(client, pack, None, headers=basic("studio", "grün:geheim")).status_code == 200
    assert client.get("/status", headers=basic("studio", "grün:geheim")).status_code == 200
    lower = {"Authorization": basic("studio", "grün:geheim")["Authorization"].replace("Basic", "basic")}
    assert client.get("/status", headers=lower).status_code == 200
    latin = {"Authorization": "Basic " + b64encode("studio:grün:geheim".encode("latin-1")).decode()}
    assert client.get("/status", headers=latin).status_code == 200
    assert client.get("/health").status_code == 200
    # Label Studio sends no password to the webhook that it registers.
    assert client.post("/tasks/qa/webhook", json={"action": "ANNOTATION_CREATED"}).status_code == 204


def test_a_webhook_is_accepted_if_it_looks_like_label_studios(client: FlaskClient) -> None:
    project = {"id": 14, "token": INVITATION}
    body = {"action": "ANNOTATION_CREATED", "project": project, "annotation": {"result": [TYPED]}}
    response = client.post("/tasks/qa/webhook", json=body)
    assert (response.status_code, response.data) == (204, b"")
    strange: list[object] = [{}, {"action": 5}, {"action": "x" * 100}, [], {"action": "A", "project": {"id": "x"}}]
    for one in strange:
        assert client.post("/tasks/qa/webhook", json=one).status_code == 400


def test_neither_tokens_nor_typed_texts_are_logged(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    pack = find_pack("sentiment")
    hook = {"action": "ANNOTATION_CREATED", "project": {"id": 14, "token": INVITATION}, "text": TYPED}
    with (
        client.post("/tasks/sentiment/setup", json=calls.setup(pack, TOKEN)),
        client.post("/tasks/qa/setup", json=calls.setup(pack, TOKEN)),
        client.post("/tasks/sentiment/webhook", json=hook),
        predict(client, pack, calls.writes(pack, TYPED)),
        client.post("/tasks/sentiment/predict", json=calls.predict(pack, calls.writes(pack, TYPED * 2_000))),
        client.post("/tasks/sentiment/setup", data=json.dumps(calls.setup(pack, TOKEN))[:-5]),
    ):
        logged = "".join(JsonLines().format(record) for record in caplog.records)
    assert logged.count('"event": "setup"') == 3
    assert logged.count('"event": "predict"') == 0
    logged = "".join(JsonLines().format(record) for record in caplog.records)
    assert logged.count('"event": "predict"') == 2
    for secret in (TOKEN, INVITATION, TYPED):
        assert secret not in logged


def test_the_status_reports_queue_load_models_latency_and_sink(client: FlaskClient) -> None:
    pack = find_pack("qa")
    with predict(client, pack, calls.writes(pack, "Who?")):
        pass
    status = client.get("/status").json
    assert status is not None
    assert status["queue"] == {"busy": 0, "at_once": 1, "waiting": 0, "room": 64}
    assert status["models"]["qa"] == ["v1"]
    assert status["predict"]["of"] == 1
    assert status["predict"]["p99_ms"] > 0
    assert status["sink"]["delivered"] == 1
    assert status["memory_mb"] > 1
    assert status["uptime_seconds"] >= 0


def test_the_metrics_count_requests_latencies_verdicts_and_attempts(setup: ServiceSetup) -> None:
    metrics = Metrics()
    service = VerdictService(setup.packs, setup.models, setup.sink, setup.clock, on_verdict=metrics.judged)
    client = backend_app(service, metrics=metrics).test_client()
    pack = find_pack("sentiment")
    for context in (calls.writes(pack, "It looks negative."), calls.writes(pack, "It looks positive.")):
        with predict(client, pack, context):
            pass
    with client.post("/tasks/made_up/predict", json={}), client.get("/tasks/other/health"):
        pass
    metrics.attempts("dropped", 3)
    page = client.get("/metrics")
    assert page.content_type.startswith("text/plain")
    lines = page.text.splitlines()
    assert 'outfox_backend_requests_total{status="200",task="sentiment",what="predict"} 2.0' in lines
    assert 'outfox_backend_requests_total{status="404",task="",what="predict"} 1.0' in lines
    assert 'outfox_backend_predict_seconds_count{task="sentiment"} 2.0' in lines
    assert 'outfox_backend_tries_total{what="dropped"} 3.0' in lines
    assert "outfox_backend_in_progress 0.0" in lines
    assert {'outfox_backend_verdicts_total{fooled="no",task="sentiment"} 1.0'} <= set(lines)
    assert "made_up" not in page.text
