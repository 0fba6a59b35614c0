"""Deliver stored events to the SQS queues that requesters subscribed."""

import logging
import re
import socket
import ssl
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from typing import Any, Protocol, Self
from urllib.parse import SplitResult, urlsplit

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from sqlalchemy import delete, exists, select, update
from sqlalchemy.exc import SQLAlchemyError

from common.errors import CodedError
from mturk.marketplace.destinations import DestinationRefused, QueueNetworks
from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.market import Market
from mturk.marketplace.tables.work import OutgoingEvent
from mturk.marketplace.urls import PORTS

BATCH = 50
POLL_SECONDS = 1.0
# While one forwarder sends an event, others leave it alone; after this time they retry it.
LEASE = timedelta(seconds=60)
FIRST_BACKOFF, LONGEST_BACKOFF = timedelta(seconds=2), timedelta(minutes=10)
GIVE_UP_AFTER = timedelta(days=1)
# How long one request to a queue may take in total, and how much of a reply is read.
SECONDS = 10.0
MAX_REPLY_BYTES = 65_536
# Requesters choose the servers, so that the number of clients in memory must have a limit.
MAX_CLIENTS = 50
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
    """Sends messages to SQS queues at allowed URLs, signed with the credentials that boto3 finds on this machine.

    A message goes to the address that was checked, and no redirect or proxy is followed.
    """

    def __init__(self, queues: QueueNetworks, **credentials: str) -> None:
        self._queues = queues
        self._credentials = credentials
        self._clients: OrderedDict[str, Any] = OrderedDict()

    def __call__(self, queue_url: str, body: str) -> None:
        try:
            self._client(queue_url).send_message(QueueUrl=queue_url, MessageBody=body)
        except DestinationRefused as error:
            raise EventDeliveryFailed(error.code) from error
        except (BotoCoreError, ClientError, ResponseParserError, HTTPException, OSError, ValueError) as error:
            # Without the message, which may contain data that does not belong in our log.
            raise EventDeliveryFailed(type(error).__name__) from error

    def _client(self, queue_url: str) -> Any:
        parts = urlsplit(queue_url)
        server = f"{parts.scheme}://{parts.netloc}"
        if server not in self._clients:
            region = REGION.search(parts.netloc)
            client = boto3.client(
                "sqs",
                endpoint_url=server,
                region_name=region[1] if region else "us-east-1",
                config=Config(retries={"total_max_attempts": 2}),
                **self._credentials,
            )
            client.meta.events.register("before-send.sqs.SendMessage", self._send)
            self._clients[server] = client
        self._clients.move_to_end(server)
        while len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return self._clients[server]

    def _send(self, request: AWSPreparedRequest, **_event: Any) -> AWSResponse:
        """Send a signed request in place of botocore, which would resolve the host once more."""
        return send_to(self._queues.address(request.url), request)


def send_to(address: str, request: AWSPreparedRequest, *, seconds: float = SECONDS) -> AWSResponse:
    """Send a request to this address of its host; a server that takes longer in total is cut off."""
    parts = urlsplit(request.url)
    connection = _connection(parts, address, seconds)
    timer = threading.Timer(seconds, connection.cut)
    timer.daemon = True
    timer.start()
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(request.method, path, request.body, dict(request.headers.items()))
        response = connection.getresponse()
        body = response.read(MAX_REPLY_BYTES)
        return AWSResponse(request.url, response.status, dict(response.getheaders()), _Reply(body))
    finally:
        timer.cancel()
        connection.close()


class _Reply:
    """A body as botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


class _PlainConnection(HTTPConnection):
    """A connection to one address of a host."""

    address = ""

    def connect(self) -> None:
        self.sock = socket.create_connection((self.address, self.port), self.timeout)

    def cut(self) -> None:
        """End a connection that another thread waits for."""
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


class _TlsConnection(_PlainConnection):
    """A connection over TLS; the certificate is the host's, whatever its address."""

    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _connection(parts: SplitResult, address: str, seconds: float) -> _PlainConnection:
    kind = _TlsConnection if parts.scheme == "https" else _PlainConnection
    connection = kind(parts.hostname or "", parts.port or PORTS[parts.scheme], timeout=seconds)
    connection.address = address
    return connection


class EventForwarder:
    """A thread that delivers events at least once, with exponential backoff, and gives up after a day."""

    def __init__(self, market: Market, send: QueueSender, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._market = market
        self._send = send
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
