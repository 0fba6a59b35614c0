import json
import logging
import time
from dataclasses import replace

import pytest
from sqlalchemy import text

from plugin.web.app import web_app
from round_manager.database.store import LazyStore
from round_manager.labelstudio.projects import WEBHOOK_HEADER, webhook_secret
from tests.integration.plugin.web.conftest import SECRETS, Web, headers_for

HOOK = "/webhooks/label-studio/sentiment"


def test_a_webhook_with_the_secret_is_a_hint_for_its_task(web: Web) -> None:
    secret = webhook_secret(SECRETS, "sentiment")
    answer = web.client.post(HOOK, json={"action": "ANNOTATION_CREATED"}, headers={WEBHOOK_HEADER: secret})
    assert (answer.status_code, answer.data, web.hints) == (204, b"", ["sentiment"])
    old = webhook_secret(SECRETS[:1], "sentiment")
    assert web.client.post(HOOK, headers={WEBHOOK_HEADER: old}).status_code == 204


@pytest.mark.parametrize("secret", ["", "wrong", webhook_secret(SECRETS, "nli"), "ü"])
def test_a_webhook_without_the_secret_is_ignored(web: Web, secret: str) -> None:
    answer = web.client.post(HOOK, headers={WEBHOOK_HEADER: secret})
    assert (answer.status_code, web.hints) == (401, [])
    assert answer.json is not None
    assert (answer.json["code"], answer.json["hint"]["action"]) == ("invalid_signature", "connect_label_studio")


def test_an_invalid_task_name_is_ignored(web: Web) -> None:
    name = "..%2Fsecret"
    for path in (f"/webhooks/label-studio/{name}", "/webhooks/label-studio/Sentiment"):
        task = path.rpartition("/")[2]
        answer = web.client.post(path, headers={WEBHOOK_HEADER: webhook_secret(SECRETS, task)})
        assert answer.status_code in (400, 401, 404)
    assert web.hints == []


def test_a_webhooks_body_is_neither_logged_nor_stored(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"project": {"token": "invitation-1234"}, "annotation": {"text": "private words"}}
    secret = webhook_secret(SECRETS, "sentiment")
    assert web.client.post(HOOK, json=body, headers={WEBHOOK_HEADER: secret}).status_code == 204
    told = json.dumps([{**vars(record), "args": None} for record in caplog.records], default=str)
    assert "invitation-1234" not in told
    assert "private words" not in told
    assert secret not in told


def test_a_webhook_with_an_endless_body_is_answered(web: Web) -> None:
    secret = webhook_secret(SECRETS, "sentiment")
    assert web.client.post(HOOK, data=b"x" * 9_000_000, headers={WEBHOOK_HEADER: secret}).status_code == 204


def test_health_reports_the_revision(web: Web) -> None:
    answer = web.client.get("/health")
    assert answer.status_code == 200
    assert answer.json is not None
    assert answer.json["status"] == "UP"
    assert answer.json["revision"]


def test_health_reports_that_the_tables_are_older_than_the_program(web: Web) -> None:
    with web.campaign.store.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    answer = web.client.get("/health")
    assert (answer.status_code, (answer.json or {}).get("code")) == (503, "schema_error")


def test_every_answer_and_its_line_in_the_log_carry_the_requests_id(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer = web.client.get("/health", headers={"X-Request-ID": "abc-123"})
    assert answer.headers["X-Request-ID"] == "abc-123"
    assert [record.__dict__["data"]["request_id"] for record in caplog.records if "data" in vars(record)] == ["abc-123"]
    forged = web.client.get("/health", headers={"X-Request-ID": "two words"})
    assert forged.headers["X-Request-ID"] not in ("", "two words")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/api/attempts", 405), ("POST", "/health", 405), ("GET", "/nothing/at/all", 404)],
)
def test_a_missing_path_is_reported_in_json(web: Web, method: str, path: str, status: int) -> None:
    answer = web.client.open(path, method=method)
    assert answer.status_code == status
    assert set(answer.json or ()) == {"error", "code", "retry", "hint", "request_id"}


def test_unknown_paths_share_one_metric(web: Web) -> None:
    web.client.get("/made-up-by-somebody")
    page = web.client.get("/metrics").text
    assert "made-up" not in page
    assert 'route="other",status="404"' in page


def test_an_unexpected_error_does_not_reveal_its_message(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("private words")

    monkeypatch.setattr(web.lazy_store, "open", fail)
    body = b'{"tries": []}'
    answer = web.client.post("/api/attempts", data=body, headers=headers_for(body, time.time()))
    assert (answer.status_code, "private words" in answer.text) == (500, False)
    health = web.client.get("/health")
    assert (health.status_code, "private words" in health.text) == (503, False)
    assert "private words" not in caplog.text


def test_an_unavailable_postgresql_is_reported_with_retry_after(web: Web) -> None:
    lazy_store = LazyStore("postgresql://nobody@127.0.0.1:1/outfox")
    client = web_app(lazy_store, replace(web.intake, lazy_store=lazy_store), SECRETS).test_client()
    body = json.dumps({"tries": [web.campaign.attempt_record().to_json()]}).encode()
    answer = client.post("/api/attempts", data=body, headers=headers_for(body, time.time()))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert client.get("/health").status_code == 503
