"""Qualifications, blocks and messages through an unmodified boto3 client, and their effect on workers."""

from typing import Any

import pytest

from mturk.marketplace import worker_actions
from mturk.marketplace.errors import NotQualified
from mturk.marketplace.tables.people import Message, Worker
from mturk.marketplace.worker_actions import HitGroup
from tests.fakes.market import MarketServer
from tests.integration.mturk.marketplace.conftest import TYPE, Requests, question, refused


def _groups(server: MarketServer, worker: Worker) -> list[HitGroup]:
    with server.market.read() as session:
        return worker_actions.list_groups(session, worker, server.market.now())


def _post(lab: Requests, *requirements: dict[str, Any]) -> str:
    made = lab.client.create_hit(
        **TYPE, LifetimeInSeconds=3600, Question=question(), QualificationRequirements=list(requirements)
    )
    return str(made["HIT"]["HITTypeId"])


def _create_qualification(lab: Requests, name: str = "Careful") -> str:
    made = lab.client.create_qualification_type(
        Name=name, Description="Reads the instructions.", QualificationTypeStatus="Active"
    )
    return str(made["QualificationType"]["QualificationTypeId"])


def test_a_qualification_is_created_granted_and_revoked(lab: Requests) -> None:
    careful, worker = _create_qualification(lab), lab.server.make_worker()
    key = {"QualificationTypeId": careful, "WorkerId": worker.id}
    refused("QualificationDoesNotExist", lab.client.get_qualification_score, **key)
    lab.client.associate_qualification_with_worker(**key, IntegerValue=7)
    score = lab.client.get_qualification_score(**key)["Qualification"]
    assert (score["IntegerValue"], score["Status"]) == (7, "Granted")
    lab.client.associate_qualification_with_worker(**key)
    (holder,) = lab.client.list_workers_with_qualification_type(QualificationTypeId=careful)["Qualifications"]
    assert (holder["WorkerId"], holder["IntegerValue"]) == (worker.id, 1)
    lab.client.disassociate_qualification_from_worker(**key, Reason="")
    assert lab.client.list_workers_with_qualification_type(QualificationTypeId=careful)["NumResults"] == 0
    gone = lab.client.list_workers_with_qualification_type(QualificationTypeId=careful, Status="Revoked")
    assert gone["NumResults"] == 1
    refused("QualificationDoesNotExist", lab.client.disassociate_qualification_from_worker, **key)


def test_names_of_qualifications_are_unique_until_they_are_deleted(lab: Requests) -> None:
    careful = _create_qualification(lab)
    refused(
        "QualificationTypeAlreadyExists",
        lab.client.create_qualification_type,
        Name="Careful",
        Description="Again.",
        QualificationTypeStatus="Active",
    )
    lab.client.delete_qualification_type(QualificationTypeId=careful)
    refused("QualificationTypeDoesNotExist", lab.client.get_qualification_type, QualificationTypeId=careful)
    assert _create_qualification(lab) != careful


def test_qualifications_are_found_by_words_and_changed(server: MarketServer, lab: Requests) -> None:
    careful = _create_qualification(lab, "Careful 100%")
    _create_qualification(lab, "Fast")
    listing = lab.client.list_qualification_types
    found = listing(Query="100%", MustBeRequestable=True, MustBeOwnedByCaller=True)["QualificationTypes"]
    assert [one["QualificationTypeId"] for one in found] == [careful]
    assert listing(Query="%x", MustBeRequestable=True)["NumResults"] == 0
    other = server.client(server.make_requester("Other")[1])
    assert other.list_qualification_types(MustBeRequestable=True, MustBeOwnedByCaller=True)["NumResults"] == 0
    assert other.list_qualification_types(MustBeRequestable=True)["NumResults"] == 2
    assert other.get_qualification_type(QualificationTypeId=careful)["QualificationType"]["Name"] == "Careful 100%"
    refused("QualificationTypeDoesNotExist", other.delete_qualification_type, QualificationTypeId=careful)
    lab.client.update_qualification_type(
        QualificationTypeId=careful,
        Description="New.",
        QualificationTypeStatus="Inactive",
        RetryDelayInSeconds=60,
    )
    seen = lab.client.get_qualification_type(QualificationTypeId=careful)["QualificationType"]
    assert (seen["Description"], seen["QualificationTypeStatus"]) == ("New.", "Inactive")
    refused("QualificationTypeDoesNotExist", other.get_qualification_type, QualificationTypeId=careful)
    assert other.list_qualification_types(MustBeRequestable=True)["NumResults"] == 1


def test_qualification_tests_and_auto_granting_are_refused(lab: Requests) -> None:
    make = {"Name": "Test", "Description": "A test.", "QualificationTypeStatus": "Active"}
    for extra in ({"Test": "<x/>", "TestDurationInSeconds": 60}, {"AutoGranted": True}):
        refused("ParameterValidationError", lab.client.create_qualification_type, **make, **extra)


@pytest.mark.parametrize(
    ("guarded", "listed", "previewed"),
    [("Accept", True, True), ("PreviewAndAccept", True, False), ("DiscoverPreviewAndAccept", False, False)],
)
def test_a_requirement_applies_from_the_action_that_it_guards(
    lab: Requests, guarded: str, listed: bool, previewed: bool
) -> None:
    careful, worker = _create_qualification(lab), lab.server.make_worker()
    type_id = _post(lab, {"QualificationTypeId": careful, "Comparator": "Exists", "ActionsGuarded": guarded})
    group_id = lab.client.list_hits()["HITs"][0]["HITGroupId"]
    market = lab.server.market
    assert [group.qualified for group in _groups(lab.server, worker)] == ([False] if listed else [])
    with market.read() as session:
        if previewed:
            assert worker_actions.preview(session, worker, group_id, market.now()).type_id == type_id
        else:
            with pytest.raises(NotQualified):
                worker_actions.preview(session, worker, group_id, market.now())
    with pytest.raises(NotQualified, match=r"You need “Careful” first\. Reads the instructions\.$"):
        lab.server.accept(worker, type_id)
    lab.client.associate_qualification_with_worker(QualificationTypeId=careful, WorkerId=worker.id)
    assert [group.qualified for group in _groups(lab.server, worker)] == [True]
    assert lab.server.accept(worker, type_id).worker_id == worker.id


@pytest.mark.parametrize(
    ("description", "requirement", "why"),
    [
        ("Pass the quiz first", {"Comparator": "Exists"}, "You need “Careful” first. Pass the quiz first."),
        ("word " * 60, {"Comparator": "Exists"}, f"You need “Careful” first. {'word ' * 40}…"),
        ("Ask us!", {"Comparator": "GreaterThan", "IntegerValues": [7]}, "You need “Careful” first. Ask us!"),
    ],
)
def test_an_unqualified_worker_reads_the_requesters_description(
    lab: Requests, description: str, requirement: dict[str, Any], why: str
) -> None:
    made = lab.client.create_qualification_type(
        Name="Careful", Description=description, QualificationTypeStatus="Active"
    )
    _post(lab, {"QualificationTypeId": made["QualificationType"]["QualificationTypeId"], **requirement})
    assert [group.why_not for group in _groups(lab.server, lab.server.make_worker())] == [why]


def test_the_reason_names_an_excluded_qualification_or_a_low_score(lab: Requests) -> None:
    careful, worker = _create_qualification(lab), lab.server.make_worker()
    lab.client.associate_qualification_with_worker(QualificationTypeId=careful, WorkerId=worker.id, IntegerValue=5)
    _post(lab, {"QualificationTypeId": careful, "Comparator": "DoesNotExist"})
    _post(lab, {"QualificationTypeId": careful, "Comparator": "GreaterThan", "IntegerValues": [7]})
    assert {group.why_not for group in _groups(lab.server, worker)} == {
        "You have “Careful” already, and this is for people who do not have it.",
        "“Careful” has to be more than 7.",
    }


def test_built_in_qualifications_follow_the_workers_results(lab: Requests) -> None:
    worker = lab.server.make_worker()
    rate, count = "000000000000000000L0", "00000000000000000040"
    strict = _post(lab, {"QualificationTypeId": rate, "Comparator": "GreaterThanOrEqualTo", "IntegerValues": [90]})
    lab.hit(MaxAssignments=1)
    lab.hit(MaxAssignments=1)
    for decide in (lab.client.approve_assignment, lab.client.reject_assignment):
        decide(AssignmentId=lab.server.work(worker, lab.type_id).id, RequesterFeedback="good")

    def score(key: str) -> int:
        response = lab.client.get_qualification_score(QualificationTypeId=key, WorkerId=worker.id)
        return int(response["Qualification"]["IntegerValue"])

    assert (score(rate), score(count)) == (50, 1)
    with pytest.raises(NotQualified, match="Approval rate has to be at least 90"):
        lab.server.accept(worker, strict)
    assert lab.server.accept(lab.server.make_worker("New"), strict)


def test_country_and_adult_content_come_from_the_worker(lab: Requests) -> None:
    german = lab.server.make_worker("Gerd", country="DE", adult=False)
    nobody = lab.server.make_worker("Nemo", country="")
    locale = {"QualificationTypeId": "00000000000000000071"}
    response = lab.client.get_qualification_score(**locale, WorkerId=german.id)["Qualification"]
    assert response["LocaleValue"] == {"Country": "DE"}
    refused("QualificationDoesNotExist", lab.client.get_qualification_score, **locale, WorkerId=nobody.id)
    here = _post(lab, {**locale, "Comparator": "In", "LocaleValues": [{"Country": "US"}, {"Country": "DE"}]})
    adult = _post(lab, {"QualificationTypeId": "00000000000000000060", "Comparator": "EqualTo", "IntegerValues": [1]})
    assert lab.server.accept(german, here)
    for worker, type_id in ((nobody, here), (german, adult)):
        with pytest.raises(NotQualified):
            lab.server.accept(worker, type_id)
    found = lab.client.list_hits_for_qualification_type(**locale)["HITs"]
    assert [hit["HITTypeId"] for hit in found] == [here]


@pytest.mark.parametrize(
    "requirement",
    [
        {"QualificationTypeId": "3NONE", "Comparator": "Exists"},
        {"QualificationTypeId": "00000000000000000040", "Comparator": "GreaterThan"},
        {"QualificationTypeId": "00000000000000000040", "Comparator": "GreaterThan", "IntegerValues": [1, 2]},
        {"QualificationTypeId": "00000000000000000040", "Comparator": "Exists", "IntegerValues": [1]},
        {"QualificationTypeId": "00000000000000000040", "Comparator": "In", "IntegerValues": list(range(16))},
        {"QualificationTypeId": "00000000000000000040", "Comparator": "In", "LocaleValues": [{"Country": "US"}]},
        {"QualificationTypeId": "00000000000000000071", "Comparator": "LessThan", "LocaleValues": [{"Country": "US"}]},
        {
            "QualificationTypeId": "00000000000000000071",
            "Comparator": "EqualTo",
            "LocaleValues": [{"Country": "US", "Subdivision": "CA"}],
        },
    ],
)
def test_invalid_requirements_are_refused(lab: Requests, requirement: dict[str, Any]) -> None:
    code = (
        "QualificationTypeDoesNotExist" if requirement["QualificationTypeId"] == "3NONE" else "ParameterValidationError"
    )
    refused(code, lab.client.create_hit_type, **TYPE, QualificationRequirements=[requirement])


def test_a_blocked_worker_gets_no_work_until_they_are_unblocked(lab: Requests) -> None:
    worker = lab.server.make_worker()
    lab.hit()
    lab.client.create_worker_block(WorkerId=worker.id, Reason="Spam.")
    lab.client.create_worker_block(WorkerId=worker.id, Reason="More spam.")
    assert lab.client.list_worker_blocks()["WorkerBlocks"] == [{"WorkerId": worker.id, "Reason": "More spam."}]
    assert [group.qualified for group in _groups(lab.server, worker)] == [False]
    with pytest.raises(NotQualified):
        lab.server.accept(worker, lab.type_id)
    lab.client.delete_worker_block(WorkerId=worker.id)
    lab.client.delete_worker_block(WorkerId=worker.id, Reason="Again.")
    assert lab.client.list_worker_blocks()["NumResults"] == 0
    assert lab.server.accept(worker, lab.type_id)
    refused("WorkerDoesNotExist", lab.client.create_worker_block, WorkerId="ANOBODY", Reason="x")


def test_messages_reach_those_who_worked_for_the_requester(lab: Requests) -> None:
    worker, stranger = lab.server.make_worker(), lab.server.make_worker("Bob")
    lab.hit()
    lab.server.work(worker, lab.type_id)
    notify = {"Subject": "Hello", "MessageText": "Round 2 is open.", "WorkerIds": [worker.id, stranger.id, "ANOBODY"]}
    failures = lab.client.notify_workers(**notify)["NotifyWorkersFailureStatuses"]
    assert [one["WorkerId"] for one in failures] == [stranger.id, "ANOBODY"]
    with lab.server.market.read() as session:
        (message,) = session.query(Message).all()
        assert (message.worker_id, message.subject) == (worker.id, "Hello")
    too_many = [f"A{number}" for number in range(101)]
    changes: list[dict[str, Any]] = [{"WorkerIds": []}, {"WorkerIds": too_many}, {"Subject": "x" * 201}]
    for change in changes:
        refused("ParameterValidationError", lab.client.notify_workers, **{**notify, **change})
