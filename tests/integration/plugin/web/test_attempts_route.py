import json
import sqlite3
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from common.database_engine import DatabaseLimits
from plugin.attempt_delivery import SIGNATURE_SECONDS
from round_manager.database.store import open_store
from tests.fakes.registry import make_version
from tests.integration.plugin.web.conftest import SECRETS, Web, headers_for


def batch(*tries: Any) -> bytes:
    return json.dumps(
        {"tries": [one if isinstance(one, (dict, list, str)) else one.to_json() for one in tries]}
    ).encode()


def send(web: Web, body: bytes, now: float | None = None, secrets: tuple[str, ...] = SECRETS) -> TestResponse:
    headers = headers_for(body, time.time() if now is None else now, secrets)
    return web.client.post("/api/attempts", data=body, headers=headers)


def test_signed_attempts_are_stored_and_counted(web: Web) -> None:
    answer = send(web, batch(web.campaign.attempt_record(), web.campaign.attempt_record()))
    assert (answer.status_code, answer.json) == (200, {"stored": 2, "refused": []})
    assert web.attempts() == 2
    page = web.client.get("/metrics").text
    assert 'outfox_web_attempts_total{what="stored"} 2.0' in page
    assert 'outfox_web_requests_total{route="attempts",status="200"} 1.0' in page


def test_each_of_the_secrets_verifies(web: Web) -> None:
    assert send(web, batch(web.campaign.attempt_record()), secrets=SECRETS[:1]).status_code == 200
    refused = send(web, batch(web.campaign.attempt_record()), secrets=("a secret that we never had, of any length",))
    assert (refused.status_code, "OUTFOX_SECRET" in refused.json["error"]) == (401, True)  # type: ignore[index]


@pytest.mark.parametrize("missing", ["X-Outfox-Time", "X-Outfox-Signature"])
def test_an_unsigned_post_is_refused(web: Web, missing: str) -> None:
    body = batch(web.campaign.attempt_record())
    headers = headers_for(body, time.time())
    del headers[missing]
    answer = web.client.post("/api/attempts", data=body, headers=headers)
    assert (answer.status_code, web.attempts()) == (401, 0)


def test_a_post_changed_in_transit_is_refused(web: Web) -> None:
    body = batch(web.campaign.attempt_record())
    headers = headers_for(body, time.time())
    later = {**headers, "X-Outfox-Time": str(int(headers["X-Outfox-Time"]) + 1)}
    assert web.client.post("/api/attempts", data=body + b" ", headers=headers).status_code == 401
    assert web.client.post("/api/attempts", data=body, headers=later).status_code == 401
    assert web.attempts() == 0


@pytest.mark.parametrize("seconds", [-SIGNATURE_SECONDS - 5, SIGNATURE_SECONDS + 5])
def test_a_post_with_a_wrong_timestamp_is_refused(web: Web, seconds: float) -> None:
    answer = send(web, batch(web.campaign.attempt_record()), now=time.time() + seconds)
    assert (answer.status_code, "clocks" in answer.json["error"]) == (401, True)  # type: ignore[index]


@pytest.mark.parametrize("seconds", [60 - SIGNATURE_SECONDS, SIGNATURE_SECONDS - 60])
def test_clocks_may_differ_a_little(web: Web, seconds: float) -> None:
    assert send(web, batch(web.campaign.attempt_record()), now=time.time() + seconds).status_code == 200


def test_a_replayed_post_stores_nothing_twice(web: Web) -> None:
    body = batch(web.campaign.attempt_record())
    headers = headers_for(body, time.time())
    answers = [web.client.post("/api/attempts", data=body, headers=headers) for _ in range(3)]
    assert [one.json["stored"] for one in answers] == [1, 0, 0]  # type: ignore[index]
    assert web.attempts() == 1


def test_an_invalid_attempt_is_named_and_the_others_are_stored(web: Web) -> None:
    campaign = web.campaign
    poison = {**campaign.attempt_record().to_json(), "judged_at": "yesterday"}
    huge = campaign.attempt_record().to_json()
    huge["said"][0]["confidence"] = 10**400
    stranger = campaign.attempt_record(task="nothing")
    answer = send(
        web, batch(campaign.attempt_record(), poison, huge, stranger, "nonsense", [], campaign.attempt_record())
    )
    assert answer.status_code == 200
    assert answer.json is not None
    assert answer.json["stored"] == web.attempts() == 2
    refused = [one["id"] for one in answer.json["refused"]]
    assert sorted(refused) == sorted([poison["id"], huge["id"], "", "", str(stranger.verdict.id)])
    assert all(one["why"] for one in answer.json["refused"])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"tries": 1}', b"{}", b"[" * 100_000, b'{"tries": {"a": 1}}'],
    ids=range(9),
)
def test_garbage_is_refused_even_when_it_is_signed(web: Web, body: bytes) -> None:
    answer = send(web, body)
    assert (answer.status_code, set(answer.json or ())) == (400, {"error", "code", "retry", "hint", "request_id"})


def test_a_batch_of_too_many_or_too_large_is_refused(web: Web) -> None:
    assert send(web, batch(*([[]] * 1_001))).status_code == 400
    answer = send(web, b"x" * 8_000_001)
    assert (answer.status_code, answer.json["error"]) == (413, "Request Entity Too Large")  # type: ignore[index]


def test_a_version_known_only_to_the_registry_is_registered_on_delivery(web: Web) -> None:
    version = make_version(Path(web.settings.registry_location), "neutral")
    said = replace(web.campaign.attempt_record().verdict.outputs[0], version=version)
    stranger = replace(said, version="m000000000000")
    answer = send(
        web,
        batch(
            web.campaign.attempt_record(outputs=(said,)),
            web.campaign.attempt_record(outputs=(stranger,)),
            web.campaign.attempt_record(),
        ),
    )
    assert answer.json is not None
    assert answer.json["stored"] == web.attempts() == 2
    (refused,) = answer.json["refused"]
    assert "'m000000000000' of sentiment is not registered" in refused["why"]


@pytest.mark.sqlite("there, one writer locks out all others")
def test_a_locked_database_is_reported_with_retry_after(web: Web) -> None:
    web.lazy_store._opener = partial(open_store, limits=DatabaseLimits(lock=0.1))
    body = batch(web.campaign.attempt_record())
    holder = sqlite3.connect(web.settings.home_path / "outfox.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    answer = send(web, body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert (answer.json or {})["code"] == "store_busy"
    holder.execute("ROLLBACK")
    holder.close()
    assert send(web, body).json == {"stored": 1, "refused": []}


@pytest.mark.sqlite("its file is moved away")
def test_an_unavailable_database_is_reported_and_reconnected(web: Web) -> None:
    database = web.settings.home_path / "outfox.db"
    web.campaign.store.close()
    database.rename(database.with_suffix(".away"))
    body = batch(web.campaign.attempt_record())
    assert send(web, body).status_code == 503
    health = web.client.get("/health")
    assert (health.status_code, health.json["status"]) == (503, "DOWN")  # type: ignore[index]
    database.with_suffix(".away").rename(database)
    assert send(web, body).status_code == 200
    assert web.client.get("/health").json["status"] == "UP"  # type: ignore[index]
