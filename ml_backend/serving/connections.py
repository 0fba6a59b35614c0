"""Connections of clients: uvicorn's HTTP protocol, with limits for clients that are slow or send too much.

A connection costs a socket and a few kilobytes, and no thread, while its client is slow to send or to read.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from heapq import nsmallest
from http import HTTPStatus
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ml_backend.errors import BodyTimeout

CRLF = b"\r\n"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConnectionLimits:
    """How much a client may send, and how long it may take.

    A body may take `body_seconds`, and longer if it is large and arrives at `bytes_per_second`. When there are more
    than `connections`, those whose clients have been waited for the longest are closed. After a refusal, a client has
    `end_seconds` to read the response; what it still sends is dropped.
    """

    head_bytes: int = 65_536
    head_fields: int = 200
    head_seconds: float = 10.0
    pipelined: int = 16
    idle_seconds: float = 10.0
    body_seconds: float = 30.0
    bytes_per_second: int = 20_000
    unread_seconds: float = 30.0
    end_seconds: float = 3.0
    connections: int = 8_192


DEFAULT_LIMITS = ConnectionLimits()


class _Phase(Enum):
    """What a connection expects from its client."""

    NONE = 0
    HEAD = 1
    BODY = 2
    # Nothing that it sends is looked at any more.
    END = 3


class _HeadTooLarge(Exception):
    """A head has too many bytes or fields."""


class Connection(HttpToolsProtocol):
    """One connection; `check` is called about every second."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._phase = _Phase.HEAD
        self._running: RequestResponseCycle | None = None
        self.since = self._last = time.monotonic()
        self._received = 0
        self._head_bytes = 0
        self._unsent = 0
        self._unsent_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection if there are too many."""
        super().connection_made(transport)
        most = self._limits.connections
        if len(self.connections) > most:
            others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
            waiting = [one for one in others if one.waits_for_client]
            # Several at a time, because finding them takes long.
            for one in nsmallest(max(1, most // 64), waiting, key=lambda one: one.since):
                one.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request that is being answered, and forget those behind it."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer the requests of a client that has said that it sends no more; return whether there are any."""
        running, is_received = self._running, self._phase is not _Phase.BODY
        if running is None or running.response_complete or running.disconnected:
            return False
        # An event stream has no end of its own, and this is how most clients leave it.
        is_stream = running.response_started and running.chunked_encoding
        if is_stream or (running is self.cycle and not is_received):
            return False
        self._end_after_responses(running, is_received=is_received)
        return True

    @property
    def waits_for_client(self) -> bool:
        """Whether the client must send or read before the server can go on."""
        running = self._running
        if running is None or running.response_complete or running.disconnected or self.flow.write_paused:
            return True
        return running is self.cycle and self._phase is _Phase.BODY

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, and limit the size of a request's head."""
        if self._phase is _Phase.END:
            return
        if self._phase is _Phase.NONE:
            self._begin(_Phase.HEAD)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except HttpParserError as error:
            if isinstance(error.__context__, _HeadTooLarge):
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large")
            else:
                # Without what was sent: it may hold a token.
                _log.warning("refused a request that is not valid HTTP")
                self._refuse(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP")
            return
        if self._phase is _Phase.HEAD:
            self._received += len(data)
            if self._received > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large")

    def on_message_begin(self) -> None:
        """Expect the head of a request."""
        super().on_message_begin()
        self._begin(_Phase.HEAD)

    def on_url(self, url: bytes) -> None:
        """Count the bytes of the head."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; drop those after a body, which could pass for fields that a proxy has checked."""
        if self._phase is _Phase.HEAD:
            self._count_head(len(name) + len(value) + 4)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Expect the body of the request."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        super().on_headers_complete()
        self._begin(_Phase.BODY)
        if len(self.pipeline) > self._limits.pipelined:
            raise OverflowError("too many requests were sent before their responses were read")

    def on_body(self, body: bytes) -> None:
        """Note that a part of the body has arrived."""
        super().on_body(body)
        self._last = time.monotonic()
        self._received += len(body)

    def on_message_complete(self) -> None:
        """Expect nothing while the request is answered."""
        if self._phase is _Phase.BODY:
            super().on_message_complete()
            self._begin(_Phase.NONE)

    def on_response_complete(self) -> None:
        """Begin the time of a request that waited for this response."""
        if self.pipeline:
            self.since = self._last = time.monotonic()
        super().on_response_complete()

    def check(self, now: float) -> None:
        """Close the connection if its client takes too long; `now` is a time of `time.monotonic()`."""
        limits = self._limits
        if self._stopped_reading(now):
            self.transport.abort()
        elif self.transport.is_closing() or self.pipeline:
            return
        elif self._phase is _Phase.HEAD and self.waits_for_client and now > self.since + limits.head_seconds:
            # Without a response, which a client could take for the response to its next request.
            self.transport.close()
        elif self._phase is _Phase.BODY:
            end = self.since + limits.body_seconds + self._received / limits.bytes_per_second
            if now > min(end, self._last + limits.idle_seconds):
                error = BodyTimeout("the body did not arrive in time; send it again")
                self._refuse(HTTPStatus(error.status), str(error), error.code)
        elif self._phase is _Phase.END and self.waits_for_client and now > self.since + limits.end_seconds:
            self.transport.close()

    def _feed(self, data: bytes) -> None:
        """Parse what has arrived. A request for another protocol is answered as if it had not asked for one."""
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._phase is not _Phase.HEAD:
                raise HttpParserError("CONNECT is not supported") from upgrade
            # The parser takes all that follows for the other protocol, the request's body too.
            fields = [field for field in self.headers if field[0] not in (b"upgrade", b"connection")]
            if not self.parser.should_keep_alive():
                fields.append((b"connection", b"close"))
            line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
            head = [line, *(b"%s: %s" % field for field in fields), b"", b""]
            self.parser = _parser(self)
            self._feed(CRLF.join(head) + data[upgrade.args[0] :])

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes or len(self.headers) >= self._limits.head_fields:
            raise _HeadTooLarge

    def _begin(self, phase: _Phase) -> None:
        self._phase = phase
        self.since = self._last = time.monotonic()
        self._received = self._head_bytes = 0

    def _stopped_reading(self, now: float) -> bool:
        """Return whether the client has read nothing for too long although there is more for it."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        return unsent > 0 and now > self._unsent_since + self._limits.unread_seconds

    def _refuse(self, status: HTTPStatus, text: str, code: str = "") -> None:
        """Answer in place of the application, after the requests before this one, and close the connection."""
        code = code or status.name.lower()
        _log.debug("refused a request", extra={"data": {"code": code}})
        running, is_received = self._running, self._phase is not _Phase.BODY
        if running is not None and not running.response_complete:
            if is_received or running is not self.cycle:
                self._end_after_responses(running, is_received=is_received)
                return
            # The bridge waits for the rest of the body.
            running.disconnected = True
            running.message_event.set()
        self._begin(_Phase.END)
        body = json.dumps({"error": text, "code": code, "retry": False, "hint": None}).encode("ascii")
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        # Many clients read no response while they are sending, and lose it if the connection is closed meanwhile.
        self.flow.resume_reading()
        self.transport.write_eof()

    def _end_after_responses(self, running: RequestResponseCycle, *, is_received: bool) -> None:
        """Answer the requests that have arrived, and then close the connection."""
        self._begin(_Phase.END)
        if not is_received:
            self.pipeline.popleft()
        self.cycle = self.pipeline[0][0] if self.pipeline else running
        self.cycle.keep_alive = False


def _parser(connection: Connection) -> HttpRequestParser:
    parser = HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def check_connections(connections: Iterable[object]) -> None:
    """Close the connections whose clients take too long."""
    now = time.monotonic()
    for one in tuple(connections):
        if isinstance(one, Connection):
            one.check(now)
