"""The marketplace's events, read from an SQS queue.

Messages arrive at least once, in any order, and some never arrive. So they only name HITs that are worth reading.
"""

import json
import logging
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from crowd.errors import CrowdRefused
from crowd.port import ChangedHits
from mturk.connection import crowd_error, keep_headers_out_of_logs

# The limits of one SQS call.
MOST_MESSAGES = 10
LONGEST_WAIT = 20
SETTINGS = Config(
    connect_timeout=5,
    read_timeout=LONGEST_WAIT + 10,
    retries={"total_max_attempts": 3, "mode": "standard"},
)
log = logging.getLogger(__name__)


class SqsEventQueue:
    """An EventQueue on SQS."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    def take(self, wait_seconds: int = LONGEST_WAIT) -> ChangedHits:
        """Wait at most 20 seconds for events and return the HITs that they name; nothing is deleted yet."""
        answer = self._call(
            "receive_message",
            MaxNumberOfMessages=MOST_MESSAGES,
            WaitTimeSeconds=max(0, min(wait_seconds, LONGEST_WAIT)),
        )
        hit_ids: set[str] = set()
        receipts, unreadable = [], []
        for message in answer.get("Messages", ()):
            found = hit_ids_in(message.get("Body", ""))
            if found is None:
                unreadable.append(message["ReceiptHandle"])
                continue
            hit_ids |= found
            receipts.append(message["ReceiptHandle"])
        if unreadable:
            log.warning("deleted messages that are not events", extra={"data": {"messages": len(unreadable)}})
            self._delete(unreadable)
        return ChangedHits(frozenset(hit_ids), tuple(receipts))

    def done(self, changed: ChangedHits) -> None:
        """Delete the messages; messages that are not deleted arrive again."""
        self._delete(changed.receipts)

    def _delete(self, receipts: Iterable[str]) -> None:
        entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(receipts)]
        for start in range(0, len(entries), MOST_MESSAGES):
            self._call("delete_message_batch", Entries=entries[start : start + MOST_MESSAGES])

    def _call(self, method: str, **members: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, method)(QueueUrl=self._url, **members)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise crowd_error(error, "the event queue", method) from error
        return answer


def open_queue(url: str, *, endpoint_url: str | None = None, region: str | None = None) -> SqsEventQueue:
    """Return the queue at a URL, with the credentials that boto3 finds."""
    keep_headers_out_of_logs()
    parts = urlsplit(url)
    server = endpoint_url or f"{parts.scheme}://{parts.netloc}"
    try:
        client = boto3.session.Session().client("sqs", endpoint_url=server, region_name=region, config=SETTINGS)
    except (BotoCoreError, ValueError) as error:
        raise CrowdRefused(f"cannot use the event queue: {error}; set its region and endpoint") from error
    return SqsEventQueue(client, url)


def hit_ids_in(body: str) -> frozenset[str] | None:
    """Return the HITs that a message names, none for a test event; None if it is not a message of MTurk's."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("Events"), list):
        return None
    found = (one.get("HITId") for one in document["Events"] if isinstance(one, dict))
    return frozenset(one for one in found if isinstance(one, str) and one)
