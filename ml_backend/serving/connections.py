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
from http import HTTPStatus
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from ml_backend.errors import BodyTimeout

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConnectionLimits:
    """How much a client may send, and how long it may take.

    A body may take `body_seconds`, and longer if it is large and arrives at `bytes_per_second`. When there are more
    than `connections`, the one whose client has been waited for the longest is closed.
    """

    head_bytes: int = 65_536
    head_seconds: float = 10.0
    idle_seconds: float = 10.0
    body_seconds: float = 30.0
    bytes_per_second: int = 20_000
    unread_seconds: float = 30.0
    connections: int = 8_192


DEFAULT_LIMITS = ConnectionLimits()


class _Phase(Enum):
    """What part of a request is arriving."""

    NONE = 0
    HEAD = 1
    BODY = 2


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
        self.since = self._last = time.monotonic()
        self._received = 0
        self._unsent = 0
        self._unsent_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
            waiting = [one for one in others if one.waits_for_client]
            if waiting:
                min(waiting, key=lambda one: one.since).transport.abort()

    @property
    def waits_for_client(self) -> bool:
        """Whether the next request, or the rest of it, must arrive before there is something to answer."""
        return self._phase is _Phase.BODY or self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Limit the size of a request's head."""
        if self._phase is _Phase.NONE:
            self._begin(_Phase.HEAD)
        super().data_received(data)
        if self._phase is _Phase.HEAD and not self.transport.is_closing():
            self._received += len(data)
            if self._received > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large")

    def on_message_begin(self) -> None:
        """Expect the head of a request."""
        super().on_message_begin()
        self._begin(_Phase.HEAD)

    def on_headers_complete(self) -> None:
        """Expect the body of the request."""
        super().on_headers_complete()
        self._begin(_Phase.BODY)

    def on_body(self, body: bytes) -> None:
        """Note that a part of the body has arrived."""
        super().on_body(body)
        self._last = time.monotonic()
        self._received += len(body)

    def on_message_complete(self) -> None:
        """Expect nothing while the request is answered."""
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

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP."""
        self._refuse(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP")

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as if the client had not asked for another protocol, without a line in the log."""

    def _begin(self, phase: _Phase) -> None:
        self._phase = phase
        self.since = self._last = time.monotonic()
        self._received = 0

    def _stopped_reading(self, now: float) -> bool:
        """Return whether the client has read nothing for too long although there is more for it."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        return unsent > 0 and now > self._unsent_since + self._limits.unread_seconds

    def _refuse(self, status: HTTPStatus, text: str, code: str = "") -> None:
        """Answer in place of the application, and close the connection."""
        code = code or status.name.lower()
        _log.debug("refused a request", extra={"data": {"code": code}})
        if self.cycle is not None and not self.cycle.response_complete:
            # The bridge waits for the rest of the body.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        body = json.dumps({"error": text, "code": code, "retry": False, "hint": None}).encode("ascii")
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def check_connections(connections: Iterable[object]) -> None:
    """Close the connections whose clients take too long."""
    now = time.monotonic()
    for one in tuple(connections):
        if isinstance(one, Connection):
            one.check(now)
