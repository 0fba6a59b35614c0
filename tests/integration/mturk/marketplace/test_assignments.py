"""Assignments through an unmodified boto3 client: listed, approved, rejected, and rejections overridden."""

from datetime import timedelta
from xml.etree import ElementTree as ET

from tests.fakes.market import MarketServer
from tests.integration.mturk.marketplace.conftest import Requests, refused


def test_only_submitted_assignments_are_visible(lab: Requests) -> None:
    hit, worker = lab.hit(), lab.server.make_worker()
    held = lab.server.accept(worker, lab.type_id)
    assert lab.counts(hit) == (1, 0, 0)
    assert lab.seen(hit)["HITStatus"] == "Unassignable"
    assert lab.client.list_assignments_for_hit(HITId=hit["HITId"])["Assignments"] == []
    refused("AssignmentDoesNotExist", lab.client.get_assignment, AssignmentId=held.id)
    refused("AssignmentDoesNotExist", lab.client.approve_assignment, AssignmentId=held.id)
    lab.server.submit(held, {"sentence": "<b>5 & 6</b>\r\n\x00ende"})
    assert lab.counts(hit) == (0, 0, 0)
    (seen,) = lab.client.list_assignments_for_hit(HITId=hit["HITId"])["Assignments"]
    assert (seen["AssignmentId"], seen["WorkerId"], seen["AssignmentStatus"]) == (held.id, worker.id, "Submitted")
    assert seen["AutoApprovalTime"] - seen["SubmitTime"] == timedelta(days=1)
    assert seen["Deadline"] - seen["AcceptTime"] == timedelta(minutes=10)
    texts = [part.text for part in ET.fromstring(seen["Answer"].encode()).iter() if part.text]
    assert texts == ["sentence", "<b>5 & 6</b>\r\nende"]


def test_an_approval_pays_the_worker_and_the_fee_from_the_hold(lab: Requests) -> None:
    hit, worker = lab.hit(MaxAssignments=2), lab.server.make_worker()
    work = lab.server.work(worker, lab.type_id)
    lab.client.approve_assignment(AssignmentId=work.id, RequesterFeedback="Thanks!")
    told = lab.client.get_assignment(AssignmentId=work.id)
    assert told["Assignment"]["AssignmentStatus"] == "Approved"
    assert told["Assignment"]["RequesterFeedback"] == "Thanks!"
    assert told["HIT"]["HITId"] == hit["HITId"]
    assert lab.counts(hit) == (0, 1, 1)
    assert lab.balance() == ("9999.40", "0.30")
    message = refused("InvalidAssignmentState", lab.client.approve_assignment, AssignmentId=work.id)
    assert "Approved" in message
    refused("InvalidAssignmentState", lab.client.reject_assignment, AssignmentId=work.id, RequesterFeedback="no")
    assert lab.balance() == ("9999.40", "0.30")


def test_a_rejection_needs_a_reason_and_releases_the_hold(lab: Requests) -> None:
    lab.hit()
    work = lab.server.work(lab.server.make_worker(), lab.type_id)
    refused("ParameterValidationError", lab.client.reject_assignment, AssignmentId=work.id)
    refused("ParameterValidationError", lab.client.reject_assignment, AssignmentId=work.id, RequesterFeedback=" ")
    assert lab.client.get_assignment(AssignmentId=work.id)["Assignment"]["AssignmentStatus"] == "Submitted"
    lab.client.reject_assignment(AssignmentId=work.id, RequesterFeedback="It is empty.")
    seen = lab.client.get_assignment(AssignmentId=work.id)["Assignment"]
    assert (seen["AssignmentStatus"], seen["RequesterFeedback"]) == ("Rejected", "It is empty.")
    assert lab.balance() == ("10000.00", "0.00")


def test_a_rejection_can_be_overridden_for_thirty_days(lab: Requests) -> None:
    lab.hit(MaxAssignments=2)
    first, second = (lab.server.work(lab.server.make_worker(), lab.type_id) for _ in range(2))
    for work in (first, second):
        lab.client.reject_assignment(AssignmentId=work.id, RequesterFeedback="no")
    refused("InvalidAssignmentState", lab.client.approve_assignment, AssignmentId=first.id)
    lab.server.clock.advance(timedelta(days=29))
    lab.client.approve_assignment(AssignmentId=first.id, OverrideRejection=True)
    assert lab.client.get_assignment(AssignmentId=first.id)["Assignment"]["AssignmentStatus"] == "Approved"
    assert lab.balance() == ("9999.70", "0.00")
    lab.server.clock.advance(timedelta(days=2))
    refused("InvalidAssignmentState", lab.client.approve_assignment, AssignmentId=second.id, OverrideRejection=True)


def test_an_override_that_the_account_does_not_cover_changes_nothing(server: MarketServer) -> None:
    _, key = server.make_requester("Poor", deposit_cents=30)
    poor = Requests(server, server.client(key))
    poor.hit()
    work = server.work(server.make_worker(), poor.type_id)
    poor.client.reject_assignment(AssignmentId=work.id, RequesterFeedback="no")
    poor.hit()
    refused("InsufficientFunds", poor.client.approve_assignment, AssignmentId=work.id, OverrideRejection=True)
    assert poor.client.get_assignment(AssignmentId=work.id)["Assignment"]["AssignmentStatus"] == "Rejected"


def test_undecided_assignments_are_approved_automatically(lab: Requests) -> None:
    hit = lab.hit()
    work = lab.server.work(lab.server.make_worker(), lab.type_id)
    lab.server.clock.advance(timedelta(hours=23))
    assert lab.client.get_assignment(AssignmentId=work.id)["Assignment"]["AssignmentStatus"] == "Submitted"
    lab.server.clock.advance(timedelta(hours=2))
    seen = lab.client.get_assignment(AssignmentId=work.id)["Assignment"]
    assert seen["AssignmentStatus"] == "Approved"
    assert seen["ApprovalTime"] == seen["AutoApprovalTime"]
    assert lab.counts(hit) == (0, 0, 1)
    assert lab.balance() == ("9999.70", "0.00")


def test_assignments_are_listed_by_status_and_in_pages(lab: Requests) -> None:
    hit = lab.hit(MaxAssignments=5)
    works = [lab.server.work(lab.server.make_worker(), lab.type_id) for _ in range(5)]
    lab.client.approve_assignment(AssignmentId=works[1].id)
    lab.client.reject_assignment(AssignmentId=works[3].id, RequesterFeedback="no")
    paginator = lab.client.get_paginator("list_assignments_for_hit")

    def listed(**filters: object) -> list[str]:
        pages = paginator.paginate(HITId=hit["HITId"], PaginationConfig={"PageSize": 2}, **filters)
        return [one["AssignmentId"] for page in pages for one in page["Assignments"]]

    assert listed() == [work.id for work in works]
    assert listed(AssignmentStatuses=["Approved", "Rejected"]) == [works[1].id, works[3].id]
    assert listed(AssignmentStatuses=["Submitted"]) == [works[0].id, works[2].id, works[4].id]


def test_rejections_of_a_deleted_hit_are_final(lab: Requests) -> None:
    hit = lab.hit()
    work = lab.server.work(lab.server.make_worker(), lab.type_id)
    lab.client.reject_assignment(AssignmentId=work.id, RequesterFeedback="no")
    lab.client.delete_hit(HITId=hit["HITId"])
    refused("InvalidHITState", lab.client.approve_assignment, AssignmentId=work.id, OverrideRejection=True)
