"""The courier: takes events from the outbox to the queues of those who asked for them."""

import logging
import re
import threading
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from sqlalchemy import delete, exists, select, update
from sqlalchemy.exc import SQLAlchemyError

from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.market import Market
from mturk.marketplace.tables import OutgoingEvent

BATCH = 50
LOOK_SECONDS = 1.0
# While one courier sends an event, no other takes it; one that was killed meanwhile is taken over after this.
LEASE = timedelta(seconds=60)
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=2), timedelta(minutes=10)
GIVE_UP = timedelta(days=1)
REGION = re.compile(r"sqs\.([a-z0-9-]+)\.amazonaws\.com")

log = logging.getLogger(__name__)


class Undelivered(Exception):
    """A queue did not take a message; it is tried again later."""


class Post(Protocol):
    """Puts a message into a queue, or raises Undelivered."""

    def __call__(self, queue_url: str, body: str) -> None:
        """The message is in the queue when this returns."""
        ...


class SqsPost:
    """Puts messages into SQS queues, wherever their URLs point; all are signed with the keys that boto3 finds here."""

    def __init__(self, **credentials: str) -> None:
        self._credentials = credentials
        self._clients: dict[str, Any] = {}

    def __call__(self, queue_url: str, body: str) -> None:
        try:
            self._client(queue_url).send_message(QueueUrl=queue_url, MessageBody=body)
        except (BotoCoreError, ClientError, ValueError) as error:
            # Without its text: it can hold what the queue's owner would not want in our log.
            raise Undelivered(type(error).__name__) from error

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


class Courier:
    """A thread that delivers events at least once, later and later when a queue is away, and gives up after a day."""

    def __init__(self, market: Market, post: Post | None = None, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._market = market
        self._post: Post = post or SqsPost()
        self._look_seconds = look_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event-courier", daemon=True)

    def deliver(self) -> int:
        """Delivers what is due; how many events arrived."""
        arrived = 0
        while taken := self._take():
            done = [event.number for event in taken if self._delivered(event)]
            if done:
                with self._market.write() as session:
                    session.execute(delete(OutgoingEvent).where(OutgoingEvent.number.in_(done)))
            arrived += len(done)
        return arrived

    def start(self) -> None:
        """Delivers from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Delivers no more; what is left stays in the outbox."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.wait(self._look_seconds):
            try:
                self.deliver()
            except (SQLAlchemyError, MarketDatabaseError):
                log.exception("events cannot be delivered just now")

    def _take(self) -> list[OutgoingEvent]:
        """Events that are due, and this courier's for as long as the lease lasts."""
        if self._stop.is_set():
            return []
        now = self._market.now()
        due = OutgoingEvent.due_at <= now
        with self._market.glance() as session:
            if not session.execute(select(exists().where(due))).scalar():
                return []
        with self._market.write() as session:
            taken = list(session.scalars(select(OutgoingEvent).where(due).order_by(OutgoingEvent.number).limit(BATCH)))
            for event in taken:
                event.due_at = now + LEASE
                event.tries += 1
        return taken

    def _delivered(self, event: OutgoingEvent) -> bool:
        """Whether the event is done with: delivered, or given up."""
        try:
            self._post(event.destination, event.body)
        except Undelivered as error:
            now = self._market.now()
            if now - event.made_at > GIVE_UP:
                log.warning("event %d was given up after %d tries (%s)", event.number, event.tries, error)
                return True
            wait = min(FIRST_WAIT * 2 ** min(event.tries - 1, 20), LONGEST_WAIT)
            with self._market.write() as session:
                session.execute(
                    update(OutgoingEvent).where(OutgoingEvent.number == event.number).values(due_at=now + wait)
                )
            return False
        return True
