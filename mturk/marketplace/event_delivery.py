"""Deliver stored events to the SQS queues that requesters subscribed."""

import logging
import re
import threading
from datetime import timedelta
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from sqlalchemy import delete, exists, select, update
from sqlalchemy.exc import SQLAlchemyError

from common.errors import CodedError
from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.market import Market
from mturk.marketplace.tables.work import OutgoingEvent

BATCH = 50
POLL_SECONDS = 1.0
# While one forwarder sends an event, others leave it alone; after this time they retry it.
LEASE = timedelta(seconds=60)
FIRST_BACKOFF, LONGEST_BACKOFF = timedelta(seconds=2), timedelta(minutes=10)
GIVE_UP_AFTER = timedelta(days=1)
REGION = re.compile(r"sqs\.([a-z0-9-]+)\.amazonaws\.com")

log = logging.getLogger(__name__)


class EventDeliveryFailed(CodedError):
    """A queue did not accept a message; it is retried later."""

    retry = True


class QueueSender(Protocol):
    """Sends messages to queues; raises EventDeliveryFailed."""

    def __call__(self, queue_url: str, body: str) -> None:
        """Send a message; it is in the queue when this returns."""


class SqsSender:
    """Sends messages to SQS queues at any URL, signed with the credentials that boto3 finds on this machine."""

    def __init__(self, **credentials: str) -> None:
        self._credentials = credentials
        self._clients: dict[str, Any] = {}

    def __call__(self, queue_url: str, body: str) -> None:
        try:
            self._client(queue_url).send_message(QueueUrl=queue_url, MessageBody=body)
        except (BotoCoreError, ClientError, ValueError) as error:
            # Without the message, which may contain data that does not belong in our log.
            raise EventDeliveryFailed(type(error).__name__) from error

    def _client(self, queue_url: str) -> Any:
        parts = urlsplit(queue_url)
        server = f"{parts.scheme}://{parts.netloc}"
        if server not in self._clients:
            region = REGION.search(parts.netloc)
            self._clients[server] = boto3.client(
                "sqs",
                endpoint_url=server,
                region_name=region[1] if region else "us-east-1",
                config=Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2}),
                **self._credentials,
            )
        return self._clients[server]


class EventForwarder:
    """A thread that delivers events at least once, with exponential backoff, and gives up after a day."""

    def __init__(self, market: Market, send: QueueSender | None = None, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._market = market
        self._send: QueueSender = send or SqsSender()
        self._poll_seconds = poll_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event-forwarder", daemon=True)

    def deliver(self) -> int:
        """Deliver what is due; return the number of delivered events."""
        delivered = 0
        while leased := self._lease():
            done = [event.number for event in leased if self._delivered(event)]
            if done:
                with self._market.write() as session:
                    session.execute(delete(OutgoingEvent).where(OutgoingEvent.number.in_(done)))
            delivered += len(done)
        return delivered

    def start(self) -> None:
        """Start delivering."""
        self._thread.start()

    def stop(self) -> None:
        """Stop delivering; undelivered events stay in the database."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            try:
                self.deliver()
            except (SQLAlchemyError, MarketDatabaseError):
                log.exception("could not deliver events; retrying")

    def _lease(self) -> list[OutgoingEvent]:
        """Lease the events that are due."""
        if self._stop.is_set():
            return []
        now = self._market.now()
        due = OutgoingEvent.due_at <= now
        with self._market.glance() as session:
            if not session.execute(select(exists().where(due))).scalar():
                return []
        with self._market.write() as session:
            leased = list(session.scalars(select(OutgoingEvent).where(due).order_by(OutgoingEvent.number).limit(BATCH)))
            for event in leased:
                event.due_at = now + LEASE
                event.tries += 1
        return leased

    def _delivered(self, event: OutgoingEvent) -> bool:
        """Send an event; return whether it was delivered or given up."""
        try:
            self._send(event.destination, event.body)
        except EventDeliveryFailed as error:
            now = self._market.now()
            if now - event.made_at > GIVE_UP_AFTER:
                log.warning("gave up delivering event %d after %d attempts (%s)", event.number, event.tries, error)
                return True
            backoff = min(FIRST_BACKOFF * 2 ** min(event.tries - 1, 20), LONGEST_BACKOFF)
            with self._market.write() as session:
                session.execute(
                    update(OutgoingEvent).where(OutgoingEvent.number == event.number).values(due_at=now + backoff)
                )
            return False
        return True
