import logging

import pytest
from botocore.exceptions import ClientError

from crowd.errors import (
    CrowdAccessDenied,
    CrowdBusy,
    CrowdError,
    CrowdRefused,
    CrowdUnavailable,
    InsufficientFunds,
    NotOnCrowd,
    RetryPolicy,
    WrongCrowdState,
)
from mturk.client import open_crowd
from mturk.connection import Endpoint
from tests.unit.mturk.scripted import BUSY, DROPPED, KEY_ID, LOST, SECRET, Reply, Scripted, refused

KEYS_WRONG = Reply(403, {"__type": "UnrecognizedClientException", "message": f"The key {KEY_ID} is not known"})
SIGNATURE_WRONG = Reply(400, {"__type": "InvalidSignatureException", "message": f"Credential={KEY_ID}"})


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (BUSY, CrowdBusy),
        (Reply(429, "slow down"), CrowdBusy),
        (LOST, CrowdUnavailable),
        (DROPPED, CrowdUnavailable),
        (Reply(502, "<html>Bad gateway</html>"), CrowdUnavailable),
        (Reply(503, ""), CrowdUnavailable),
        (Reply(200, "<html>A login page</html>"), CrowdUnavailable),
        (Reply(200, {"Available": "1.00"}), CrowdUnavailable),
        (Reply(200, {"AvailableBalance": "1.001"}), CrowdUnavailable),
        (KEYS_WRONG, CrowdAccessDenied),
        (SIGNATURE_WRONG, CrowdAccessDenied),
        (refused("HITDoesNotExist"), NotOnCrowd),
        (refused("QualificationTypeDoesNotExist"), NotOnCrowd),
        (refused("InvalidHITState"), WrongCrowdState),
        (refused("InvalidAssignmentState", "It has already been processed"), WrongCrowdState),
        (refused("InsufficientFunds"), InsufficientFunds),
        (refused("ParameterValidationError"), CrowdRefused),
        (Reply(404, "nothing here"), CrowdRefused),
    ],
)
def test_every_error_response_maps_to_one_class(market: Scripted, said: Reply, kind: type[CrowdError]) -> None:
    market.says["GetAccountBalance"] = [said]
    with pytest.raises(CrowdError) as caught:
        market.crowd(budget=0).balance()
    assert type(caught.value) is kind
    assert "market" in str(caught.value)


def test_a_refusal_keeps_the_marketplaces_own_code_and_words(market: Scripted) -> None:
    market.says["GetHIT"] = [refused("HITDoesNotExist", "Hit 3X does not exist.")]
    with pytest.raises(NotOnCrowd) as caught:
        market.crowd().hit("3X")
    assert isinstance(caught.value.__cause__, ClientError)
    assert caught.value.remote_code == "AWS.MechanicalTurk.HITDoesNotExist"


def test_an_unreachable_marketplace_is_unavailable() -> None:
    crowd = open_crowd(Endpoint("http://127.0.0.1:9", KEY_ID, SECRET, "market"), retries=RetryPolicy(budget=0))
    with pytest.raises(CrowdUnavailable):
        crowd.balance()


@pytest.mark.parametrize("url", ["", "market.example", "ftp//x"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(CrowdRefused):
        open_crowd(Endpoint(url, KEY_ID, SECRET))


@pytest.mark.parametrize(("key_id", "secret"), [("", SECRET), (KEY_ID, "")])
def test_a_missing_key_is_not_replaced_by_another_key_of_this_machine(
    market: Scripted, monkeypatch: pytest.MonkeyPatch, key_id: str, secret: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "else")
    with pytest.raises(CrowdAccessDenied):
        open_crowd(Endpoint(market.url, key_id, secret))


@pytest.mark.parametrize("said", [KEYS_WRONG, SIGNATURE_WRONG, LOST])
def test_access_keys_are_in_no_log_no_error_and_no_repr(
    market: Scripted, caplog: pytest.LogCaptureFixture, said: Reply
) -> None:
    caplog.set_level(logging.DEBUG)
    market.says["GetAccountBalance"] = [said]
    crowd = market.crowd(budget=0)
    with pytest.raises(CrowdError) as caught:
        crowd.balance()
    told = [str(caught.value), caplog.text, repr(crowd), repr(vars(crowd)), repr(Endpoint("u", KEY_ID, SECRET))]
    assert not any(one in text for one in (KEY_ID, SECRET) for text in told)
