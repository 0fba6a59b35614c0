"""Verdicts from the ML backend, trusted by their signature."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from werkzeug.serving import make_server

from ml_backend.judge import JudgeRequest
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.web import backend_app
from ml_backend.verdict import VerdictSigner
from plugin.backend_client import BackendJudge, BackendUnavailable, BackendVerdictRejected, JudgementRefused
from tests.fakes.clock import SettableClock
from tests.unit.ml_backend.serving.conftest import ServiceSetup, find_pack

SECRET = "s" * 32
# Outside Latin-1: both sides write it in UTF-8.
PASSWORD = "grün:geheim→"
FIELDS = {"prompt": "A meal.", "text": "It was fine."}


class RunningBackend:
    """A backend with models that need no loading, on a port."""

    def __init__(self) -> None:
        self.setup = ServiceSetup(find_pack("sentiment"))
        self.setup.models.place("sentiment", self.setup.models.models_for("sentiment").targets[0], round=1)
        app = backend_app(self.setup.service, auth=BasicAuth("web", PASSWORD), signer=VerdictSigner([SECRET]))
        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def judge(self, clock: SettableClock | None = None, **changes: object) -> BackendJudge:
        chosen = {"secrets": [SECRET], "auth": ("web", PASSWORD), **changes}
        return BackendJudge(self.url, now=(clock or self.setup.clock).now, **chosen)  # type: ignore[arg-type]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def request(task: str = "sentiment", fields: dict[str, str] = FIELDS, target: str | None = None) -> JudgeRequest:
    spec = find_pack("sentiment").spec.model_copy(update={"name": task})
    return JudgeRequest(spec, 1, (), fields, target, "session-1")


@pytest.fixture
def serving() -> Iterator[RunningBackend]:
    running = RunningBackend()
    yield running
    running.stop()


def test_a_verdict_is_signed_for_its_session_and_not_stored_by_the_backend(serving: RunningBackend) -> None:
    verdict = serving.judge().judge(request(target="negative"))
    assert verdict.is_about(find_pack("sentiment").spec, FIELDS, "negative")
    assert verdict.fooled is not None
    assert serving.setup.sink.attempts == []


def test_a_verdict_with_another_secret_or_time_is_not_trusted(serving: RunningBackend) -> None:
    with pytest.raises(BackendVerdictRejected):
        serving.judge(secrets=["t" * 32]).judge(request())
    late = SettableClock()
    late.advance(timedelta(hours=1))
    with pytest.raises(BackendVerdictRejected):
        serving.judge(late).judge(request())


def test_an_unavailable_backend_can_be_retried(serving: RunningBackend) -> None:
    judge = serving.judge()
    serving.stop()
    with pytest.raises(BackendUnavailable) as caught:
        judge.judge(request())
    assert caught.value.retry


@pytest.mark.parametrize(
    ("task", "fields", "fact"),
    [("nosuch", FIELDS, "nosuch"), ("sentiment", {"prompt": "A meal.", "text": " "}, "text")],
)
def test_a_refused_judgement_names_the_reason(
    serving: RunningBackend, task: str, fields: dict[str, str], fact: str
) -> None:
    with pytest.raises(JudgementRefused, match=fact):
        serving.judge().judge(request(task, fields))


def test_the_password_is_required(serving: RunningBackend) -> None:
    with pytest.raises(JudgementRefused):
        serving.judge(auth=None).judge(request())


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"fields": {"text": 1}, "holder": "x"},
        {"fields": FIELDS, "target": 1, "holder": "x"},
        {"fields": FIELDS},
    ],
)
def test_an_invalid_body_is_refused_in_one_sentence(body: object) -> None:
    app = backend_app(ServiceSetup(find_pack("sentiment")).service, signer=VerdictSigner([SECRET]))
    answer = app.test_client().post("/tasks/sentiment/judge", json=body)
    assert answer.status_code == 400
    assert "\n" not in answer.json["error"]  # type: ignore[index]


def test_without_a_secret_no_verdicts_are_given() -> None:
    app = backend_app(ServiceSetup(find_pack("sentiment")).service)
    assert app.test_client().post("/tasks/sentiment/judge", json={}).status_code == 404
