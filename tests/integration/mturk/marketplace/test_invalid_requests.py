"""Invalid requests: each gets one clear error, and nothing changes."""

import base64
import json
from typing import Any

import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from mturk.marketplace.api import hits
from mturk.marketplace.api.app import MAX_BODY_BYTES, find_operation
from mturk.marketplace.api.protocol import model
from mturk.marketplace.errors import UnsupportedOperation
from mturk.marketplace.people import KeyPair
from tests.fakes.market import MarketServer
from tests.integration.mturk.marketplace.conftest import TYPE, Requests, question, refused

BILLION_LAUGHS = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + question("https://example.org/&b;")


def _post(
    server: MarketServer, body: bytes, *, target: str = "GetAccountBalance", sign: bool = True, sent: str = ""
) -> requests.Response:
    prefix = model().target_prefix
    request = AWSRequest("POST", f"{server.url}/", data=body, headers={"X-Amz-Target": f"{prefix}.{target}"})
    if sign:
        credentials = Credentials(server.key.id, server.key.secret)
        SigV4Auth(credentials, "mturk-requester", "us-east-1").add_auth(request)
    headers = dict(request.headers)
    if sent:
        headers["X-Amz-Target"] = f"{prefix}.{sent}"
    return requests.post(f"{server.url}/", data=body, headers=headers, timeout=10)


def test_an_unsigned_request_is_refused(server: MarketServer) -> None:
    response = _post(server, b"{}", sign=False)
    assert response.status_code == 403
    assert response.json()["__type"] == "MissingAuthenticationTokenException"


def test_a_wrong_secret_and_an_unknown_key_are_refused(server: MarketServer) -> None:
    for key, kind in (
        (KeyPair(server.key.id, "wrong"), "InvalidSignatureException"),
        (KeyPair("AKIANOBODY", server.key.secret), "UnrecognizedClientException"),
    ):
        with pytest.raises(ClientError) as caught:
            server.client(key).get_account_balance()
        assert caught.value.response["Error"]["Code"] == kind


def test_a_body_changed_after_signing_is_refused(lab: Requests) -> None:
    def change(request: Any, **_: Any) -> None:
        request.data = request.body = request.body.replace(b'"0.25"', b'"9.25"')

    lab.client.meta.events.register("before-send.mturk.CreateHITType", change)
    with pytest.raises(ClientError) as caught:
        lab.client.create_hit_type(**TYPE)
    assert caught.value.response["Error"]["Code"] == "InvalidSignatureException"


def test_a_target_changed_after_signing_is_refused(server: MarketServer) -> None:
    response = _post(server, b"{}", sent="ListHITs")
    assert response.json()["__type"] == "InvalidSignatureException"


def test_malformed_requests_get_protocol_errors(server: MarketServer) -> None:
    assert _post(server, b"{").json()["__type"] == "SerializationException"
    assert _post(server, b"[" * 100_000).json()["__type"] == "SerializationException"
    assert _post(server, b"{}", target="PayEverybody").json()["__type"] == "UnknownOperationException"
    nothing = _post(server, b"[]")
    assert (nothing.status_code, nothing.json()["__type"]) == (400, "RequestError")


def test_a_body_of_more_than_a_megabyte_is_refused(server: MarketServer) -> None:
    response = _post(server, b" " * (MAX_BODY_BYTES + 1))
    assert response.status_code == 413


def test_every_response_has_a_request_id_and_the_protocols_content_type(server: MarketServer) -> None:
    response = _post(server, b"{}")
    assert response.headers["Content-Type"] == "application/x-amz-json-1.1"
    assert len(response.headers["x-amzn-RequestId"]) == 36
    assert json.loads(response.content) == {"AvailableBalance": "10000.00", "OnHoldBalance": "0.00"}


def _is_supported(name: str) -> bool:
    try:
        find_operation(name)
    except UnsupportedOperation:
        return False
    return True


def test_every_operation_is_implemented_or_refused_by_name(lab: Requests) -> None:
    unsupported = {name for name in model().operations if not _is_supported(name)}
    assert unsupported == {
        "AcceptQualificationRequest",
        "GetFileUploadURL",
        "ListQualificationRequests",
        "ListReviewPolicyResultsForHIT",
        "RejectQualificationRequest",
        "UpdateHITTypeOfHIT",
    }
    assert "ListQualificationRequests" in refused("NotSupported", lab.client.list_qualification_requests)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"Reward": "-0.05"}, "Reward"),
        ({"Reward": "0.055"}, "Reward"),
        ({"Reward": "1e3"}, "Reward"),
        ({"Reward": "5\n"}, "Reward"),
        ({"Reward": 5}, "Reward"),
        ({"Reward": "10000.01"}, "Reward"),
        ({"Reward": "9" * 40}, "Reward"),
        ({"Title": ""}, "Title"),
        ({"Title": "x" * 129}, "Title"),
        ({"Title": "a\x00b"}, "Title"),
        ({"Title": None}, "Title"),
        ({"Title": "Pays \u202e00.1$"}, "Title"),
        ({"Title": "two\nlines"}, "Title"),
        ({"Description": "a\u2066b"}, "Description"),
        ({"Description": "a\x1bb"}, "Description"),
        ({"Keywords": "a, \u202db"}, "Keywords"),
        ({"Description": " "}, "Description"),
        ({"AssignmentDurationInSeconds": 29}, "AssignmentDurationInSeconds"),
        ({"AssignmentDurationInSeconds": 60.5}, "AssignmentDurationInSeconds"),
        ({"AssignmentDurationInSeconds": True}, "AssignmentDurationInSeconds"),
        ({"AutoApprovalDelayInSeconds": 2_592_001}, "AutoApprovalDelayInSeconds"),
        ({"AutoApprovalDelayInSeconds": 2**63}, "AutoApprovalDelayInSeconds"),
        ({"Colour": "red"}, "Colour"),
    ],
)
def test_an_invalid_hit_type_is_refused_with_the_name_of_the_member(
    lab: Requests, change: dict[str, Any], named: str
) -> None:
    assert named in refused("ParameterValidationError", _raw(lab, "CreateHITType"), **{**TYPE, **change})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Question": question("https://example.org/" + "x" * 66_000)}, "ParameterValidationError"),
        ({"Question": "<QuestionForm/>"}, "ParameterValidationError"),
        ({"Question": question("javascript:alert(1)")}, "ParameterValidationError"),
        ({"Question": question("https://user:secret@example.org/")}, "ParameterValidationError"),
        ({"Question": question("//example.org")}, "ParameterValidationError"),
        ({"Question": question("https://[broken")}, "ParameterValidationError"),
        ({"Question": question(extra="<FrameHeight>tall</FrameHeight>")}, "ParameterValidationError"),
        ({"Question": question(extra=f"<FrameHeight>{'9' * 5_000}</FrameHeight>")}, "ParameterValidationError"),
        ({"Question": question("http://a..b.é/")}, "ParameterValidationError"),
        ({"Question": question(f"http://{'é' * 80}/")}, "ParameterValidationError"),
        ({"Question": question("http://2130706433/")}, "ParameterValidationError"),
        ({"Question": f'<?xml version="1.0" encoding="UTF-16"?>{question()}'}, "XMLParseError"),
        ({"Question": f'<?xml version="1.0" encoding="iso-8859-1"?>{question()}'}, "XMLParseError"),
        ({"Question": f'<?xml version="1.0" encoding="klingon"?>{question()}'}, "XMLParseError"),
        ({"Question": question(extra="<Script/>")}, "XMLParseError"),
        ({"Question": question()[:-3]}, "XMLParseError"),
        ({"Question": BILLION_LAUGHS}, "XMLParseError"),
        ({"Question": None}, "ParameterValidationError"),
        ({"MaxAssignments": 0}, "ParameterValidationError"),
        ({"MaxAssignments": 2**31}, "ParameterValidationError"),
        ({"LifetimeInSeconds": 10}, "ParameterValidationError"),
        ({"RequesterAnnotation": "x" * 256}, "ParameterValidationError"),
        ({"UniqueRequestToken": "x" * 65}, "ParameterValidationError"),
        ({"HITTypeId": "3NONE"}, "HITTypeDoesNotExist"),
        ({"HITTypeId": "no spaces"}, "ParameterValidationError"),
    ],
)
def test_an_invalid_hit_is_refused_and_nothing_is_held(lab: Requests, change: dict[str, Any], code: str) -> None:
    members = {"HITTypeId": lab.type_id, "LifetimeInSeconds": 3600, "Question": question(), **change}
    refused(code, _raw(lab, "CreateHITWithHITType"), **members)
    assert lab.client.list_hits()["HITs"] == []
    assert lab.balance() == ("10000.00", "0.00")


def test_a_page_on_the_marketplaces_own_host_is_refused(lab: Requests) -> None:
    own = question(lab.server.url.upper().replace("HTTP", "http") + "/earnings")
    assert "ExternalURL" in refused("ParameterValidationError", lab.hit, Question=own)


@pytest.mark.parametrize("encoding", ["UTF-8", "utf-8", "US-ASCII"])
def test_a_question_may_declare_utf_8(lab: Requests, encoding: str) -> None:
    assert lab.hit(Question=f'<?xml version="1.0" encoding="{encoding}"?>{question()}')["HITStatus"] == "Assignable"


@pytest.mark.parametrize("number", ["1" + "0" * 30, "true", "-1", "1.5", '"1"', "9" * 5_000, "null", "[" * 9_000])
def test_a_forged_page_token_is_refused(lab: Requests, number: str) -> None:
    token = base64.urlsafe_b64encode(f'["ListHITs", {number}]'.encode()).decode()
    assert "NextToken" in refused("ParameterValidationError", lab.client.list_hits, NextToken=token)


def test_a_search_with_too_many_words_is_refused(lab: Requests) -> None:
    search = lab.client.list_qualification_types
    message = refused("ParameterValidationError", search, MustBeRequestable=False, Query="word " * 2_000)
    assert message.startswith("Query: 2000 words")
    assert search(MustBeRequestable=False, Query="word " * 50)["NumResults"] == 0


@pytest.mark.parametrize("size", [0, 101, "10"])
def test_pages_have_1_to_100_entries(lab: Requests, size: Any) -> None:
    assert "MaxResults" in refused("ParameterValidationError", _raw(lab, "ListHITs"), MaxResults=size)


def test_an_invalid_time_is_refused(lab: Requests) -> None:
    hit = lab.hit()
    for time in (1e300, "tomorrow", True):
        refused("ParameterValidationError", _raw(lab, "UpdateExpirationForHIT"), HITId=hit["HITId"], ExpireAt=time)


def test_an_unexpected_error_is_a_500_without_details(
    lab: Requests, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hit = lab.hit()
    monkeypatch.setattr(hits, "get_hit", lambda *_: {"HIT": {"HITId": "not an id"}})
    monkeypatch.setattr(hits, "delete_hit", lambda call, _: call.session.execute("secret"))
    for call in (lab.client.get_hit, lab.client.delete_hit):
        with pytest.raises(ClientError) as caught:
            call(HITId=hit["HITId"])
        assert caught.value.response["Error"]["Code"] == "ServiceFault"
        assert "secret" not in str(caught.value.response)
    assert "HIT.HITId has to match" in caplog.text


def test_each_request_is_logged_without_its_contents(lab: Requests, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mturk.marketplace.api.app")
    lab.client.create_hit_type(**TYPE)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "mturk.marketplace.api.app"]
    assert line.startswith("'CreateHITType' 200 ")
    assert str(TYPE["Title"]) not in line


def _raw(lab: Requests, operation: str) -> Any:
    """Send members as they are: boto3 would refuse to serialize some of them."""

    def call(**members: Any) -> None:
        response = _post(lab.server, json.dumps(members).encode(), target=operation)
        if response.status_code != 200:
            error = {**response.json(), "ResponseMetadata": {"HTTPStatusCode": response.status_code}}
            raise ClientError({**error, "Error": {"Code": error["__type"]}}, operation)

    return call
