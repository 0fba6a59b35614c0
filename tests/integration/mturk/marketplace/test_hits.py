"""HITs through an unmodified boto3 client: created, listed, extended, expired and deleted, with the money they hold."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.market import MarketServer
from tests.integration.mturk.marketplace.conftest import TYPE, Requests, question, refused


def test_the_same_parameters_are_the_same_type(lab: Requests) -> None:
    assert lab.client.create_hit_type(**TYPE)["HITTypeId"] == lab.type_id
    assert lab.client.create_hit_type(**{**TYPE, "Reward": "0.26"})["HITTypeId"] != lab.type_id


def test_a_hit_returns_its_parameters(lab: Requests) -> None:
    made = lab.hit(MaxAssignments=3, RequesterAnnotation="key-1")
    seen = lab.seen(made)
    assert seen == made
    assert (seen["Title"], seen["Reward"], seen["HITStatus"]) == (TYPE["Title"], "0.25", "Assignable")
    assert (seen["RequesterAnnotation"], seen["Question"]) == ("key-1", question())
    assert lab.counts(made) == (0, 3, 0)
    assert seen["Expiration"] - seen["CreationTime"] == timedelta(hours=1)


def test_create_hit_uses_the_type_of_its_parameters(lab: Requests) -> None:
    made = lab.client.create_hit(**TYPE, LifetimeInSeconds=3600, Question=question())["HIT"]
    assert made["HITTypeId"] == lab.type_id
    assert made["HITGroupId"] == lab.hit()["HITGroupId"]


def test_a_hit_holds_rewards_and_fees_for_all_its_assignments(lab: Requests) -> None:
    lab.hit(MaxAssignments=9)
    assert lab.balance() == ("9997.30", "2.70")
    # From ten assignments on, the fee is 40 %.
    lab.hit(MaxAssignments=10)
    assert lab.balance() == ("9993.80", "6.20")


def test_a_hit_that_the_balance_does_not_cover_is_refused(server: MarketServer) -> None:
    _, key = server.make_requester("Poor", deposit_cents=59)
    poor = Requests(server, server.client(key))
    message = refused("InsufficientFunds", poor.hit, MaxAssignments=2)
    assert "$0.60" in message
    assert "$0.59" in message
    assert poor.client.list_hits()["HITs"] == []
    assert poor.balance() == ("0.59", "0.00")


def test_a_token_creates_one_hit_within_a_day(lab: Requests) -> None:
    first = lab.hit(UniqueRequestToken="t")
    message = refused("HitAlreadyExists", lab.hit, UniqueRequestToken="t")
    assert first["HITId"] in message
    lab.server.clock.advance(timedelta(hours=23, minutes=59))
    refused("HitAlreadyExists", lab.hit, UniqueRequestToken="t")
    lab.server.clock.advance(timedelta(minutes=1))
    second = lab.hit(UniqueRequestToken="t")
    assert second["HITId"] != first["HITId"]
    refused("HitAlreadyExists", lab.hit, UniqueRequestToken="t")


def test_a_token_of_a_refused_hit_can_be_used_after_a_deposit(server: MarketServer) -> None:
    requester, key = server.make_requester("Poor", deposit_cents=1)
    poor = Requests(server, server.client(key))
    refused("InsufficientFunds", poor.hit, UniqueRequestToken="t")
    from mturk.marketplace import people

    with server.market.write() as session:
        people.deposit(session, requester, 100, server.market.now())
    assert poor.hit(UniqueRequestToken="t")["HITStatus"] == "Assignable"


def test_hits_are_listed_newest_first_in_pages(lab: Requests) -> None:
    made = [lab.hit()["HITId"] for _ in range(7)]
    pages = [page["HITs"] for page in lab.client.get_paginator("list_hits").paginate(PaginationConfig={"PageSize": 3})]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [hit["HITId"] for page in pages for hit in page] == made[::-1]


def test_a_hit_created_between_two_pages_shifts_nothing(lab: Requests) -> None:
    made = [lab.hit()["HITId"] for _ in range(4)]
    first = lab.client.list_hits(MaxResults=2)
    lab.hit()
    second = lab.client.list_hits(MaxResults=2, NextToken=first["NextToken"])
    assert [hit["HITId"] for hit in first["HITs"] + second["HITs"]] == made[::-1]
    assert "NextToken" not in second


def test_a_page_token_of_another_operation_is_refused(lab: Requests) -> None:
    for _ in range(2):
        lab.hit()
    token = lab.client.list_hits(MaxResults=1)["NextToken"]
    for wrong in (token, "rubbish", "é"):
        refused("ParameterValidationError", lab.client.list_worker_blocks, NextToken=wrong)


def test_another_requesters_hit_does_not_exist(server: MarketServer, lab: Requests) -> None:
    hit = lab.hit()
    other = server.client(server.make_requester("Other")[1])
    refused("HITDoesNotExist", other.get_hit, HITId=hit["HITId"])
    refused("HITDoesNotExist", other.delete_hit, HITId=hit["HITId"])
    refused(
        "HITTypeDoesNotExist",
        other.create_hit_with_hit_type,
        HITTypeId=lab.type_id,
        LifetimeInSeconds=60,
        Question=question(),
    )
    assert other.list_hits()["HITs"] == []


def test_expiring_a_hit_releases_the_hold_of_available_assignments(lab: Requests) -> None:
    hit = lab.hit(MaxAssignments=3)
    lab.server.accept(lab.server.make_worker(), lab.type_id)
    lab.client.update_expiration_for_hit(HITId=hit["HITId"], ExpireAt=datetime(2015, 1, 1, tzinfo=UTC))
    assert lab.seen(hit)["HITStatus"] == "Unassignable"
    assert lab.counts(hit) == (1, 2, 0)
    assert lab.balance() == ("9999.70", "0.30")


def test_a_hit_expires_at_its_time_also_for_reads(lab: Requests) -> None:
    hit = lab.hit(MaxAssignments=2)
    lab.server.clock.advance(timedelta(minutes=59))
    assert lab.seen(hit)["HITStatus"] == "Assignable"
    lab.server.clock.advance(timedelta(minutes=1))
    assert lab.seen(hit)["HITStatus"] == "Reviewable"
    assert lab.balance() == ("10000.00", "0.00")


def test_a_longer_lifetime_reopens_an_expired_hit_and_its_hold(lab: Requests) -> None:
    hit = lab.hit()
    lab.server.clock.advance(timedelta(hours=2))
    lab.client.update_expiration_for_hit(HITId=hit["HITId"], ExpireAt=lab.server.clock.now() + timedelta(hours=1))
    assert lab.seen(hit)["HITStatus"] == "Assignable"
    assert lab.balance() == ("9999.70", "0.30")


def test_extending_adds_assignments_once_per_token(lab: Requests) -> None:
    hit = lab.hit()
    more = {"HITId": hit["HITId"], "NumberOfAdditionalAssignments": 2, "UniqueRequestToken": "e"}
    lab.client.create_additional_assignments_for_hit(**more)
    message = refused("DuplicateRequest", lab.client.create_additional_assignments_for_hit, **more)
    assert '"e" has already been processed' in message
    assert lab.counts(hit) == (0, 3, 0)
    assert lab.balance()[1] == "0.90"


def test_an_extension_reopens_a_finished_hit(lab: Requests) -> None:
    hit = lab.hit()
    lab.server.work(lab.server.make_worker(), lab.type_id)
    assert lab.seen(hit)["HITStatus"] == "Reviewable"
    lab.client.create_additional_assignments_for_hit(HITId=hit["HITId"], NumberOfAdditionalAssignments=1)
    assert lab.seen(hit)["HITStatus"] == "Assignable"


def test_a_hit_with_nine_assignments_cannot_be_extended_to_ten(lab: Requests) -> None:
    hit = lab.hit(MaxAssignments=9)
    more = {"HITId": hit["HITId"], "NumberOfAdditionalAssignments": 1}
    refused("InvalidMaximumAssignmentsIncrease", lab.client.create_additional_assignments_for_hit, **more)
    assert lab.counts(hit) == (0, 9, 0)
    many = lab.hit(MaxAssignments=10)
    lab.client.create_additional_assignments_for_hit(HITId=many["HITId"], NumberOfAdditionalAssignments=5)
    assert lab.counts(many) == (0, 15, 0)


def test_only_a_reviewable_hit_with_all_work_decided_can_be_deleted(lab: Requests) -> None:
    hit = lab.hit()
    refused("InvalidHITState", lab.client.delete_hit, HITId=hit["HITId"])
    work = lab.server.work(lab.server.make_worker(), lab.type_id)
    refused("InvalidHITState", lab.client.delete_hit, HITId=hit["HITId"])
    lab.client.approve_assignment(AssignmentId=work.id)
    lab.client.delete_hit(HITId=hit["HITId"])
    assert lab.client.list_hits()["HITs"] == []
    assert lab.seen(hit)["HITStatus"] == "Disposed"
    refused("InvalidHITState", lab.client.delete_hit, HITId=hit["HITId"])
    later = lab.server.clock.now() + timedelta(hours=1)
    refused("InvalidHITState", lab.client.update_expiration_for_hit, HITId=hit["HITId"], ExpireAt=later)
    more = {"HITId": hit["HITId"], "NumberOfAdditionalAssignments": 1}
    refused("InvalidHITState", lab.client.create_additional_assignments_for_hit, **more)


def test_reviewable_hits_are_listed_by_state_and_type(lab: Requests) -> None:
    done = lab.hit()
    lab.server.work(lab.server.make_worker(), lab.type_id)
    lab.hit()
    assert [hit["HITId"] for hit in lab.client.list_reviewable_hits()["HITs"]] == [done["HITId"]]
    lab.client.update_hit_review_status(HITId=done["HITId"])
    assert lab.client.list_reviewable_hits(HITTypeId=lab.type_id)["HITs"] == []
    assert lab.client.list_reviewable_hits(Status="Reviewing")["NumResults"] == 1
    refused("InvalidHITState", lab.client.update_hit_review_status, HITId=done["HITId"])
    lab.client.update_hit_review_status(HITId=done["HITId"], Revert=True)
    assert lab.seen(done)["HITStatus"] == "Reviewable"


@pytest.mark.parametrize("name", ["AssignmentReviewPolicy", "HITLayoutId"])
def test_unsupported_parameters_are_refused(lab: Requests, name: str) -> None:
    value = {"AssignmentReviewPolicy": {"PolicyName": "ScoreMyKnownAnswers/2011-09-01"}, "HITLayoutId": "3ABC"}[name]
    assert name in refused("ParameterValidationError", lab.hit, **{name: value})
    assert lab.client.list_hits()["HITs"] == []
