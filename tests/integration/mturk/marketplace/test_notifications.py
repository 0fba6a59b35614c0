"""Events reach an SQS queue (moto) at least once, in MTurk's format, also after the queue was unavailable."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from mturk.marketplace import worker_actions
from mturk.marketplace.event_delivery import EventForwarder, SqsSender
from mturk.marketplace.tables.work import OutgoingEvent
from tests.fakes.market import LOOPBACK_QUEUES
from tests.fakes.registry import eventually
from tests.fakes.s3 import S3Server
from tests.integration.mturk.marketplace.conftest import Requests, refused

EVENTS = ["AssignmentAccepted", "AssignmentSubmitted", "AssignmentApproved", "HITReviewable"]
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


@pytest.fixture(scope="module")
def aws() -> Iterator[S3Server]:
    """moto, which serves SQS too."""
    server = S3Server()
    yield server
    server.stop()


class Queue:
    """A queue of the requester."""

    def __init__(self, aws: S3Server, name: str) -> None:
        self.sqs: Any = boto3.client("sqs", endpoint_url=aws.url, region_name="us-east-1", **KEYS)
        self.url = self.sqs.create_queue(QueueName=name)["QueueUrl"]

    def messages(self) -> list[dict[str, Any]]:
        """Receive and delete all messages."""
        found = []
        while got := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for message in got:
                found.append(json.loads(message["Body"]))
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return found

    def notification(self, *events: str) -> dict[str, Any]:
        """Return a notification for these events."""
        return {"Destination": self.url, "Transport": "SQS", "Version": "2014-08-15", "EventTypes": list(events)}


@pytest.fixture
def queue(aws: S3Server, request: pytest.FixtureRequest) -> Queue:
    return Queue(aws, f"q{abs(hash(request.node.name))}")


def _waiting(lab: Requests) -> int:
    with lab.server.market.glance() as session:
        return session.query(OutgoingEvent).count()


def test_events_of_a_hit_type_arrive_in_the_queue(lab: Requests, queue: Queue) -> None:
    lab.client.update_notification_settings(HITTypeId=lab.type_id, Notification=queue.notification(*EVENTS))
    hit = lab.hit()
    work = lab.server.work(lab.server.make_worker(), lab.type_id)
    lab.client.approve_assignment(AssignmentId=work.id)
    with EventForwarder(lab.server.market, SqsSender(LOOPBACK_QUEUES, **KEYS), poll_seconds=0.01):
        eventually(lambda: not _waiting(lab), "all events are delivered")
    messages = queue.messages()
    assert [message["Events"][0]["EventType"] for message in messages] == [
        "AssignmentAccepted",
        "AssignmentSubmitted",
        "HITReviewable",
        "AssignmentApproved",
    ]
    assert len({message["EventDocId"] for message in messages}) == 4
    submitted = messages[1]
    assert (submitted["CustomerId"], submitted["EventDocVersion"]) == (lab.server.requester.id, "2014-08-15")
    (event,) = submitted["Events"]
    assert (event["HITId"], event["HITTypeId"], event["AssignmentId"]) == (hit["HITId"], lab.type_id, work.id)
    assert (
        datetime.strptime(event["EventTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) <= lab.server.clock.now()
    )


def test_returns_abandonments_rejections_and_expiry_are_events(lab: Requests, queue: Queue) -> None:
    kinds = [
        "AssignmentReturned",
        "AssignmentAbandoned",
        "AssignmentRejected",
        "HITExpired",
        "HITCreated",
        "HITDisposed",
    ]
    lab.client.update_notification_settings(HITTypeId=lab.type_id, Notification=queue.notification(*kinds))
    hit, worker = lab.hit(), lab.server.make_worker()
    held = lab.server.accept(worker, lab.type_id)
    with lab.server.market.write() as session:
        worker_actions.return_assignment(session, worker, held.id, lab.server.market.now())
    lab.server.accept(worker, lab.type_id)
    lab.server.clock.advance(timedelta(minutes=11))
    work = lab.server.work(lab.server.make_worker("Bob"), lab.type_id)
    lab.client.reject_assignment(AssignmentId=work.id, RequesterFeedback="no")
    lab.server.clock.advance(timedelta(hours=1))
    lab.client.delete_hit(HITId=hit["HITId"])
    EventForwarder(lab.server.market, SqsSender(LOOPBACK_QUEUES, **KEYS)).deliver()
    told = [message["Events"][0]["EventType"] for message in queue.messages()]
    assert told == [
        "HITCreated",
        "AssignmentReturned",
        "AssignmentAbandoned",
        "AssignmentRejected",
        "HITExpired",
        "HITDisposed",
    ]


def test_an_inactive_subscription_sends_nothing(lab: Requests, queue: Queue) -> None:
    settings = lab.client.update_notification_settings
    refused("ParameterValidationError", settings, HITTypeId=lab.type_id, Active=True)
    refused("ParameterValidationError", settings, HITTypeId=lab.type_id)
    settings(HITTypeId=lab.type_id, Notification=queue.notification("HITCreated"))
    lab.hit()
    settings(HITTypeId=lab.type_id, Active=False)
    lab.hit()
    assert _waiting(lab) == 1


def test_a_test_event_arrives(lab: Requests, queue: Queue) -> None:
    lab.client.send_test_event_notification(Notification=queue.notification("Ping"), TestEventType="Ping")
    assert EventForwarder(lab.server.market, SqsSender(LOOPBACK_QUEUES, **KEYS)).deliver() == 1
    (message,) = queue.messages()
    assert message["Events"][0]["EventType"] == "Ping"


def test_events_are_kept_for_an_unavailable_queue(aws: S3Server, lab: Requests, queue: Queue) -> None:
    lab.client.update_notification_settings(HITTypeId=lab.type_id, Notification=queue.notification("HITCreated"))
    lab.hit()
    courier = EventForwarder(lab.server.market, SqsSender(LOOPBACK_QUEUES, **KEYS))
    aws.stop()
    try:
        assert courier.deliver() == 0
    finally:
        aws.start()
    assert courier.deliver() == 0, "it is not tried again at once"
    lab.server.clock.advance(timedelta(seconds=3))
    assert courier.deliver() == 1
    assert len(queue.messages()) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Transport": "Email"}, "ParameterValidationError"),
        ({"Version": "2020-01-01"}, "ParameterValidationError"),
        ({"EventTypes": []}, "ParameterValidationError"),
        ({"EventTypes": ["Birthday"]}, "ParameterValidationError"),
        ({"Destination": "arn:aws:sqs:us-east-1:1:q"}, "InvalidTransportEndpoint"),
        ({"Destination": "https://[broken/1/q"}, "InvalidTransportEndpoint"),
        ({"Destination": "http://sqs.example/1/q"}, "InvalidTransportEndpoint"),
        ({"Destination": "http://2130706433/1/q"}, "InvalidTransportEndpoint"),
        ({"Destination": "https://10.0.0.8/1/q"}, "InvalidTransportEndpoint"),
    ],
)
def test_an_invalid_notification_is_refused(lab: Requests, change: dict[str, Any], code: str) -> None:
    good = {"Destination": "https://sqs.us-east-1.amazonaws.com/1/q", "Transport": "SQS", "Version": "2014-08-15"}
    notification = {**good, "EventTypes": ["Ping"], **change}
    refused(code, lab.client.update_notification_settings, HITTypeId=lab.type_id, Notification=notification)
    refused(code, lab.client.send_test_event_notification, Notification=notification, TestEventType="Ping")
