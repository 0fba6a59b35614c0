"""What happened on the marketplace, told through an SQS queue: hints that make somebody look sooner, never facts.

Messages come at least once and in any order, and some never come; so a hint only names a HIT to look at.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from mturk.connection import keep_headers_out_of_logs
from mturk.errors import CrowdRefused
from mturk.refusals import in_our_words

# What one question to SQS can hold, and how long it can wait.
MOST_MESSAGES = 10
LONGEST_WAIT = 20
SETTINGS = Config(
    connect_timeout=5,
    read_timeout=LONGEST_WAIT + 10,
    retries={"total_max_attempts": 3, "mode": "standard"},
)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Hints:
    """HITs that something happened to, and the messages that told it."""

    hit_ids: frozenset[str] = frozenset()
    receipts: tuple[str, ...] = field(default=(), repr=False)

    @property
    def messages(self) -> int:
        """How many messages told it; as many as SQS gives at once means that there may be more."""
        return len(self.receipts)


class EventQueue:
    """An SQS queue that the marketplace tells its events to."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    def take(self, wait_seconds: int = LONGEST_WAIT) -> Hints:
        """What has come, after waiting for it for at most 20 seconds; taken for a while, not deleted."""
        answer = self._ask(
            "receive_message",
            MaxNumberOfMessages=MOST_MESSAGES,
            WaitTimeSeconds=max(0, min(wait_seconds, LONGEST_WAIT)),
        )
        hit_ids: set[str] = set()
        receipts, rubbish = [], []
        for message in answer.get("Messages", ()):
            told = hit_ids_in(message.get("Body", ""))
            if told is None:
                rubbish.append(message["ReceiptHandle"])
                continue
            hit_ids |= told
            receipts.append(message["ReceiptHandle"])
        if rubbish:
            log.warning("deleted messages that are no events", extra={"data": {"messages": len(rubbish)}})
            self._delete(rubbish)
        return Hints(frozenset(hit_ids), tuple(receipts))

    def done(self, hints: Hints) -> None:
        """Deletes the messages, once somebody has looked; what is not deleted comes again."""
        self._delete(hints.receipts)

    def _delete(self, receipts: Iterable[str]) -> None:
        entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(receipts)]
        for start in range(0, len(entries), MOST_MESSAGES):
            self._ask("delete_message_batch", Entries=entries[start : start + MOST_MESSAGES])

    def _ask(self, method: str, **members: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, method)(QueueUrl=self._url, **members)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise in_our_words(error, "the queue of events", method) from error
        return answer


def open_queue(url: str, *, endpoint_url: str | None = None, region: str | None = None) -> EventQueue:
    """The queue at its URL, on the server that the URL names, with the credentials that boto3 finds."""
    keep_headers_out_of_logs()
    parts = urlsplit(url)
    server = endpoint_url or f"{parts.scheme}://{parts.netloc}"
    try:
        client = boto3.session.Session().client("sqs", endpoint_url=server, region_name=region, config=SETTINGS)
    except (BotoCoreError, ValueError) as error:
        raise CrowdRefused(f"cannot use the queue of events: {error}; set its region and endpoint") from error
    return EventQueue(client, url)


def hit_ids_in(body: str) -> frozenset[str] | None:
    """The HITs that a message is about, none for a test of the queue; None where it is no message of MTurk's."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("Events"), list):
        return None
    found = (one.get("HITId") for one in document["Events"] if isinstance(one, dict))
    return frozenset(one for one in found if isinstance(one, str) and one)
