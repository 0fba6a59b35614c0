"""Events from a real SQS queue, moto's."""

import json
import logging
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from crowd.errors import CrowdError, CrowdUnavailable
from crowd.port import ChangedHits
from mturk.event_queue import SqsEventQueue, open_queue
from tests.fakes.s3 import S3Server

SECRET_TEXT = "what a worker typed"


def event(kind: str = "AssignmentSubmitted", hit_id: str = "3HIT") -> dict[str, Any]:
    return {"EventType": kind, "EventTimestamp": "2027-03-01T12:00:00Z", "HITTypeId": "3TYPE", "HITId": hit_id}


def message(*events: Any) -> str:
    return json.dumps({"EventDocVersion": "2006-05-05", "EventDocId": "d1", "CustomerId": "A1", "Events": events})


class Sqs:
    """One queue, seen from the marketplace's side."""

    def __init__(self, server: S3Server) -> None:
        self.endpoint = server.url
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
        self.client = boto3.client("sqs", endpoint_url=server.url, **keys)
        # What was taken is there again at once, so that no test has to wait for it. All of moto's servers in a process
        # share their queues, so each has its own name.
        made = self.client.create_queue(QueueName=uuid.uuid4().hex, Attributes={"VisibilityTimeout": "0"})
        self.url = made["QueueUrl"]

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.client.send_message(QueueUrl=self.url, MessageBody=body)

    @property
    def left(self) -> int:
        wanted = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=wanted)["Attributes"]
        return sum(int(found[name]) for name in wanted)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def sqs(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sqs]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    queue = Sqs(server)
    yield queue
    queue.client.delete_queue(QueueUrl=queue.url)


@pytest.fixture
def queue(sqs: Sqs) -> SqsEventQueue:
    return open_queue(sqs.url, endpoint_url=sqs.endpoint, region="us-east-1")


def test_events_name_the_hits_to_look_at(sqs: Sqs, queue: SqsEventQueue) -> None:
    sqs.send(message(event(hit_id="3A"), event("HITReviewable", "3B")), message(event("HITExpired", "3C")))
    assert queue.take(1).hit_ids == {"3A", "3B", "3C"}


def test_events_stay_until_they_are_done(sqs: Sqs, queue: SqsEventQueue) -> None:
    sqs.send(message(event()))
    assert queue.take(1).hit_ids == {"3HIT"}
    assert sqs.left == 1
    again = queue.take(1)
    assert again.hit_ids == {"3HIT"}
    queue.done(again)
    assert sqs.left == 0


def test_a_repeated_event_names_one_hit(sqs: Sqs, queue: SqsEventQueue) -> None:
    sqs.send(message(event()), message(event()))
    hints = queue.take(1)
    assert hints.hit_ids == {"3HIT"}
    assert len(hints.receipts) == 2
    queue.done(hints)
    queue.done(hints)
    assert sqs.left == 0


def test_an_empty_queue_names_no_hits(queue: SqsEventQueue) -> None:
    assert queue.take(0) == ChangedHits()
    queue.done(ChangedHits())


def test_a_test_event_names_no_hit_and_can_be_deleted(sqs: Sqs, queue: SqsEventQueue) -> None:
    sqs.send(message({"EventType": "Ping", "EventTimestamp": "2027-03-01T12:00:00Z"}))
    hints = queue.take(1)
    assert hints.hit_ids == frozenset()
    queue.done(hints)
    assert sqs.left == 0


def test_an_unknown_event_type_still_names_its_hit(sqs: Sqs, queue: SqsEventQueue) -> None:
    sqs.send(message(event("AssignmentTeleported", "3NEW"), "no event", {"HITId": 5}))
    assert queue.take(1).hit_ids == {"3NEW"}


def test_invalid_messages_are_deleted_and_logged_without_their_contents(
    sqs: Sqs, queue: SqsEventQueue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rubbish = [SECRET_TEXT, json.dumps([SECRET_TEXT]), json.dumps({"Events": SECRET_TEXT}), "[" * 100_000]
    sqs.send(*rubbish, message(event()))
    hints = queue.take(1)
    assert hints.hit_ids == {"3HIT"}
    assert len(hints.receipts) == sqs.left == 1
    ours = [record for record in caplog.records if record.name == "mturk.event_queue"]
    assert [record.__dict__["data"] for record in ours] == [{"messages": 4}]
    assert SECRET_TEXT not in "".join(record.getMessage() for record in ours)


def test_messages_beyond_one_batch_arrive_later(sqs: Sqs, queue: SqsEventQueue) -> None:
    sqs.send(*(message(event(hit_id=f"3H{number}")) for number in range(12)))
    found: set[str] = set()
    while (hints := queue.take(0)).receipts:
        found |= hints.hit_ids
        queue.done(hints)
    assert found == {f"3H{number}" for number in range(12)}


def test_a_missing_queue_raises_a_crowd_error(sqs: Sqs) -> None:
    missing = open_queue(f"{sqs.endpoint}/123456789012/missing", endpoint_url=sqs.endpoint, region="us-east-1")
    with pytest.raises(CrowdError):
        missing.take(0)


def test_an_unreachable_queue_server_can_be_retried(sqs: Sqs) -> None:
    away = open_queue(sqs.url, endpoint_url="http://127.0.0.1:9", region="us-east-1")
    with pytest.raises(CrowdUnavailable) as caught:
        away.take(0)
    assert caught.value.retry
