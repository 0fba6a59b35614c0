from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from crowd.errors import CrowdRefused, CrowdUnavailable, TokenExpired, TokenMissing, WrongCrowdState
from crowd.port import BonusOrder, Comparator, HitTerms, Requirement, Token
from tests.fakes.clock import NOON, SettableClock
from tests.unit.mturk.scripted import BUSY, DROPPED, LOST, TERMS, TOKEN, Reply, Scripted, hit, order, refused

MADE = Reply(200, {"HIT": hit()})
BONUS = BonusOrder(TOKEN, "A1WORKER", "3ASSIGNMENT", 150, "Well fooled")
AGAIN = refused("DuplicateRequest", 'The idempotency token "hit-1-abc" has already been processed.')


def work(status: str) -> Reply:
    told = {"AssignmentId": "3A", "HITId": "3H", "WorkerId": "A1", "AssignmentStatus": status}
    return Reply(200, {"Assignment": {**told, "AcceptTime": 1, "SubmitTime": 2, "Answer": ""}})


def test_a_hit_is_posted_with_its_key_as_token_and_annotation(market: Scripted) -> None:
    market.says["CreateHITWithHITType"] = [MADE]
    posted = market.crowd().post(order())
    assert posted.hit_id == "3HITOFTHETESTS"
    assert posted.reward_cents == 25
    sent = market.members("CreateHITWithHITType")[0]
    assert sent["UniqueRequestToken"] == sent["RequesterAnnotation"] == TOKEN.key


@pytest.mark.parametrize("fault", [LOST, DROPPED, BUSY])
def test_every_attempt_of_a_call_carries_the_same_token(market: Scripted, fault: Reply) -> None:
    market.says["CreateHITWithHITType"] = [fault, fault, MADE]
    market.crowd().post(order())
    assert [one["UniqueRequestToken"] for one in market.members("CreateHITWithHITType")] == [TOKEN.key] * 3


def test_a_hit_whose_answer_was_lost_is_found_by_the_id_in_the_refusal(market: Scripted) -> None:
    repeated = refused("HitAlreadyExists", "The HIT 3HITOFTHETESTS exists already for hit-1-abc. (162617241)")
    market.says |= {"CreateHITWithHITType": [LOST, repeated], "GetHIT": [MADE]}
    assert market.crowd().post(order()).hit_id == "3HITOFTHETESTS"
    assert market.members("GetHIT") == [{"HITId": "3HITOFTHETESTS"}]


def test_a_hit_is_found_in_the_listing_if_the_refusal_names_no_id(market: Scripted) -> None:
    pages = [
        Reply(200, {"HITs": [hit("3OTHER", "other")], "NextToken": "2"}),
        Reply(200, {"HITs": [hit("3MINE")], "NextToken": "3"}),
    ]
    market.says |= {"CreateHITWithHITType": [refused("HITAlreadyExists", "it exists")], "ListHITs": pages}
    assert market.crowd().post(order()).hit_id == "3MINE"
    assert [one.get("NextToken") for one in market.members("ListHITs")] == [None, "2"]


def test_a_hit_with_another_key_is_not_ours(market: Scripted) -> None:
    market.says |= {
        "CreateHITWithHITType": [refused("HITAlreadyExists", "it is 3HITOFSOMEBODY")],
        "GetHIT": [Reply(200, {"HIT": hit("3HITOFSOMEBODY", "another key")})],
        "ListHITs": [Reply(200, {"HITs": [hit("3HITOFSOMEBODY", "another key")]})],
    }
    with pytest.raises(CrowdUnavailable) as caught:
        market.crowd().post(order())
    assert caught.value.in_doubt


def test_nothing_is_sent_without_a_token(market: Scripted) -> None:
    crowd, none = market.crowd(), Token("", NOON)
    with pytest.raises(TokenMissing):
        crowd.post(order(none))
    with pytest.raises(TokenMissing):
        crowd.bonus(BonusOrder(none, "A1", "3A", 5, ""))
    assert market.asked == []


@pytest.mark.parametrize(
    ("method", "members"),
    [
        ("create_hit", {"LifetimeInSeconds": 60, "AssignmentDurationInSeconds": 60, "Reward": "1", "Title": "t"}),
        ("create_hit_with_hit_type", {"HITTypeId": "3T", "LifetimeInSeconds": 60}),
        ("send_bonus", {"WorkerId": "A1", "BonusAmount": "1", "AssignmentId": "3A", "Reason": "r"}),
        ("create_additional_assignments_for_hit", {"HITId": "3H", "NumberOfAdditionalAssignments": 1}),
    ],
)
def test_the_client_refuses_paid_operations_without_a_token(
    market: Scripted, method: str, members: dict[str, Any]
) -> None:
    client = market.crowd()._wire._client
    with pytest.raises(TokenMissing):
        getattr(client, method)(**members)
    assert market.asked == []


@pytest.mark.parametrize("key", ["x" * 65, "two words", "[x]", "schlüssel"])
def test_a_token_that_the_marketplace_would_alter_is_refused(market: Scripted, key: str) -> None:
    with pytest.raises(CrowdRefused):
        market.crowd().bonus(BonusOrder(Token(key, NOON), "A1", "3A", 5, ""))
    assert market.asked == []


def test_an_expired_token_is_not_sent(market: Scripted) -> None:
    clock = SettableClock(NOON + timedelta(hours=22))
    crowd = market.crowd(clock.now)
    with pytest.raises(TokenExpired):
        crowd.bonus(BONUS)
    with pytest.raises(TokenExpired):
        crowd.post(order())
    assert market.asked == []


def test_a_token_that_expires_during_a_backoff_is_not_sent_again(market: Scripted) -> None:
    market.says["SendBonus"] = [LOST]
    clock = SettableClock(NOON + timedelta(hours=21, minutes=59))
    crowd = market.crowd(clock.now, sleep=lambda _seconds: clock.advance(timedelta(minutes=1)))
    with pytest.raises(CrowdUnavailable) as caught:
        crowd.bonus(BONUS)
    assert caught.value.in_doubt
    assert market.operations() == ["SendBonus"]


def test_a_refusal_after_a_lost_answer_leaves_the_call_in_doubt(market: Scripted) -> None:
    market.says["SendBonus"] = [LOST, refused("InsufficientFunds")]
    with pytest.raises(CrowdUnavailable) as caught:
        market.crowd().bonus(BONUS)
    assert caught.value.in_doubt


def test_a_refusal_after_throttling_is_definite(market: Scripted) -> None:
    market.says["SendBonus"] = [BUSY, refused("InsufficientFunds", "too little")]
    with pytest.raises(CrowdRefused):
        market.crowd().bonus(BONUS)


def test_a_bonus_whose_answer_was_lost_counts_as_paid(market: Scripted) -> None:
    market.says["SendBonus"] = [LOST, AGAIN]
    market.crowd().bonus(BONUS)
    sent = market.members("SendBonus")[1]
    assert sent["BonusAmount"] == "1.50"
    assert sent["Reason"] == "Well fooled [ref hit-1-abc]"


def test_a_login_page_of_a_network_does_not_count_as_an_answer(market: Scripted) -> None:
    market.says["SendBonus"] = [Reply(200, "<html>Sign in to the hotel's network</html>")]
    with pytest.raises(CrowdUnavailable) as caught:
        market.crowd(budget=0).bonus(BONUS)
    assert caught.value.in_doubt


def test_threads_that_post_the_same_terms_create_one_hit_type(market: Scripted) -> None:
    market.says["CreateHITWithHITType"] = [MADE]
    crowd = market.crowd()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(crowd.post, [order(Token(f"key-{number}", NOON)) for number in range(24)]))
    assert market.operations().count("CreateHITType") == 1
    assert len({one["UniqueRequestToken"] for one in market.members("CreateHITWithHITType")}) == 24


@pytest.mark.parametrize(
    ("decided", "operation"), [("Approved", "ApproveAssignment"), ("Rejected", "RejectAssignment")]
)
def test_repeating_a_decision_changes_nothing(market: Scripted, decided: str, operation: str) -> None:
    market.says |= {operation: [LOST, refused("InvalidAssignmentState")], "GetAssignment": [work(decided)]}
    crowd = market.crowd()
    if decided == "Approved":
        crowd.approve("3A")
    else:
        crowd.reject("3A", "not a sentence")
    assert market.operations() == [operation, operation, "GetAssignment"]


def test_a_decision_that_contradicts_an_earlier_one_is_refused(market: Scripted) -> None:
    market.says |= {"ApproveAssignment": [refused("InvalidAssignmentState")], "GetAssignment": [work("Rejected")]}
    with pytest.raises(WrongCrowdState):
        market.crowd().approve("3A")


def test_expiring_a_hit_twice_succeeds(market: Scripted) -> None:
    market.says["UpdateExpirationForHIT"] = [AGAIN]
    market.crowd().expire("3H")


def test_a_qualification_that_is_created_concurrently_is_found(market: Scripted) -> None:
    ours = {"QualificationTypeId": "3Q", "Name": "trained", "Description": "d"}
    market.says |= {
        "ListQualificationTypes": [Reply(200, {"QualificationTypes": []}), Reply(200, {"QualificationTypes": [ours]})],
        "CreateQualificationType": [refused("QualificationTypeAlreadyExists")],
    }
    assert market.crowd().ensure_qualification("trained", "d").qualification_id == "3Q"


def test_revoking_a_qualification_that_the_worker_lacks_succeeds(market: Scripted) -> None:
    market.says["DisassociateQualificationFromWorker"] = [refused("InvalidQualificationState")]
    market.crowd().revoke("3Q", "A1")


def test_a_failed_page_is_retried_and_no_hit_is_listed_twice(market: Scripted) -> None:
    pages = [Reply(200, {"HITs": [hit("3A")], "NextToken": "2"}), LOST, BUSY, Reply(200, {"HITs": [hit("3B")]})]
    market.says["ListHITs"] = pages
    assert [one.hit_id for one in market.crowd().hits()] == ["3A", "3B"]


def test_a_hit_that_was_deleted_is_not_listed(market: Scripted) -> None:
    market.says["ListHITs"] = [Reply(200, {"HITs": [hit("3A", status="Disposed"), hit("3B")]})]
    assert [one.hit_id for one in market.crowd().hits()] == ["3B"]


def test_pages_are_requested_only_as_needed(market: Scripted) -> None:
    market.says["ListHITs"] = [Reply(200, {"HITs": [hit("3A")], "NextToken": "2"})]
    assert next(market.crowd().hits()).hit_id == "3A"
    assert market.operations() == ["ListHITs"]


def test_a_listing_that_repeats_its_page_token_is_refused(market: Scripted) -> None:
    market.says["ListHITs"] = [Reply(200, {"HITs": [], "NextToken": "2"})]
    with pytest.raises(CrowdRefused):
        list(market.crowd().hits())


def test_messages_are_sent_to_a_hundred_workers_at_a_time(market: Scripted) -> None:
    failed = {"WorkerId": "A3", "NotifyWorkersFailureCode": "HardFailure", "NotifyWorkersFailureMessage": "unknown"}
    market.says["NotifyWorkers"] = [Reply(200, {"NotifyWorkersFailureStatuses": [failed]}), Reply()]
    undelivered = market.crowd().notify([f"A{number}" for number in range(250)], "Round 2", "starts")
    assert [len(one["WorkerIds"]) for one in market.members("NotifyWorkers")] == [100, 100, 50]
    assert [(one.worker_id, one.reason) for one in undelivered] == [("A3", "unknown")]


def test_prices_show_the_fee_before_anything_is_posted(market: Scripted) -> None:
    crowd = market.crowd()
    masters = replace(TERMS, requirements=(Requirement("2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", Comparator.EXISTS),))
    assert crowd.price(TERMS, 9).total_cents == 30
    assert crowd.price(TERMS, 10).total_cents == 35
    assert crowd.price(masters, 9).fee_cents == 7
    assert crowd.bonus_price(150).total_cents == 180
    assert market.asked == []


@pytest.mark.parametrize("call", ["reward", "bonus", "workers", "reason", "block"])
def test_invalid_arguments_are_refused_without_a_request(market: Scripted, call: str) -> None:
    crowd = market.crowd()
    less = HitTerms("t", "d", (), -1, 60, 60)
    calls: dict[str, Callable[[], object]] = {
        "reward": lambda: crowd.post(order(terms=less)),
        "workers": lambda: crowd.post(order(max_assignments=0)),
        "bonus": lambda: crowd.bonus(BonusOrder(TOKEN, "A1", "3A", 0, "")),
        "reason": lambda: crowd.reject("3A", "  "),
        "block": lambda: crowd.block("A1", ""),
    }
    with pytest.raises(CrowdRefused):
        calls[call]()
    assert market.asked == []
