"""Signatures made by botocore are accepted; requests that are changed, incomplete or late are refused."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from mturk.marketplace.api.authentication import (
    KEY_CACHE_SECONDS,
    AccessKeyCache,
    SignatureError,
    SignedRequest,
    verify_signature,
)
from mturk.marketplace.services import accounts
from tests.fakes.market import StillWorld

KEY, SECRET = "AKIATEST", "s3cret/+"
TARGET = "MTurkRequesterServiceV20170117.GetHIT"


def _signed(
    body: bytes = b"{}",
    region: str = "us-east-1",
    service: str = "mturk-requester",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> SignedRequest:
    sent = {
        "Host": "market.example:7500",
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": TARGET,
        **headers,
    }
    request: Any = AWSRequest("POST", "http://market.example:7500/", data=body, headers=sent)
    SigV4Auth(Credentials(KEY, SECRET), service, region).add_auth(request)
    return SignedRequest("POST", "/", "", {name.lower(): value for name, value in request.headers.items()}, body)


def _verify(request: SignedRequest, now: datetime | None = None) -> str:
    return verify_signature(request, {KEY: SECRET}.get, now or datetime.now(UTC))


def _changed(request: SignedRequest, **headers: str) -> SignedRequest:
    return replace(request, headers={**request.headers, **headers})


@given(st.binary(max_size=50), st.sampled_from(["us-east-1", "eu-central-1"]))
def test_any_request_signed_by_botocore_is_accepted(body: bytes, region: str) -> None:
    assert _verify(_signed(body, region)) == KEY


def test_repeated_spaces_in_a_header_are_collapsed() -> None:
    assert _verify(_signed(headers={"X-Amz-Meta": "  a   b "})) == KEY


def _refusal(request: SignedRequest, now: datetime | None = None) -> tuple[str, int]:
    with pytest.raises(SignatureError) as caught:
        _verify(request, now)
    return caught.value.kind, caught.value.status


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, body=b"{ }"),
        lambda one: replace(one, method="GET"),
        lambda one: replace(one, path="/other"),
        lambda one: replace(one, query="a=1"),
        lambda one: _changed(one, **{"x-amz-target": TARGET.replace("Get", "Delete")}),
        lambda one: _changed(one, host="other.example"),
        lambda one: _changed(one, authorization=one.headers["authorization"][:-1] + "é"),
    ],
)
def test_a_change_after_signing_is_refused(change: Any) -> None:
    assert _refusal(change(_signed())) == ("InvalidSignatureException", 403)


def test_a_signature_is_valid_for_fifteen_minutes_on_either_side() -> None:
    request = _signed()
    now = datetime.now(UTC)
    assert _verify(request, now + timedelta(minutes=14)) == KEY
    for late in (timedelta(minutes=16), -timedelta(minutes=16)):
        assert _refusal(request, now + late) == ("InvalidSignatureException", 403)


def test_a_credential_scope_of_another_day_is_refused() -> None:
    request = _signed()
    today = f"{datetime.now(UTC):%Y%m%d}/"
    moved = request.headers["authorization"].replace(today, "20200101/")
    assert _refusal(_changed(request, authorization=moved)) == ("InvalidSignatureException", 403)


def test_unsigned_requests_and_unknown_keys_are_refused() -> None:
    unsigned = {name: value for name, value in _signed().headers.items() if name != "authorization"}
    assert _refusal(replace(_signed(), headers=unsigned)) == ("MissingAuthenticationTokenException", 403)
    stranger = _signed().headers["authorization"].replace(KEY, "AKIAOTHER")
    assert _refusal(_changed(_signed(), authorization=stranger)) == ("UnrecognizedClientException", 400)


@pytest.mark.parametrize("name", ["host", "x-amz-date", "x-amz-target"])
def test_required_headers_must_be_signed(name: str) -> None:
    request = _signed()
    fewer = request.headers["authorization"].replace(f"{name};", "").replace(f";{name}", "")
    assert fewer != request.headers["authorization"]
    assert _refusal(_changed(request, authorization=fewer)) == ("IncompleteSignatureException", 400)


@pytest.mark.parametrize(
    "header",
    [
        "Basic dXNlcjpwYXNz",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=a/b/c/mturk-requester/aws4_request, Signature=1",
        "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-date;x-amz-target, Signature=1",
        "AWS4-HMAC-SHA256 Credential=a, Credential=b, Signature=1",
    ],
)
def test_a_malformed_authorization_header_is_refused(header: str) -> None:
    assert _refusal(_changed(_signed(), authorization=header)) == ("IncompleteSignatureException", 400)


def test_another_service_a_missing_header_and_an_invalid_time_are_refused() -> None:
    assert _refusal(_signed(service="s3"))[0] == "IncompleteSignatureException"
    extra = _signed(headers={"X-Amz-Meta": "a"})
    without = {name: value for name, value in extra.headers.items() if name != "x-amz-meta"}
    assert _refusal(replace(extra, headers=without))[0] == "IncompleteSignatureException"
    assert _refusal(_changed(_signed(), **{"x-amz-date": "today"}))[0] == "IncompleteSignatureException"


def test_a_revoked_key_is_refused_when_the_cache_has_expired(world: StillWorld) -> None:
    seconds = [0.0]
    cache = AccessKeyCache(world.market, lambda: seconds[0])
    assert world.key.secret not in repr(world.key)
    assert cache.secret(world.key.id) == world.key.secret
    assert cache.requester(world.key.id).id == world.requester.id
    accounts.revoke_key(world.market, "Lab", world.key.id)
    assert cache.secret(world.key.id) == world.key.secret
    seconds[0] = KEY_CACHE_SECONDS
    assert cache.secret(world.key.id) is None
    with pytest.raises(LookupError):
        cache.requester(world.key.id)
