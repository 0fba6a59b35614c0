"""Bodies of requests: received completely before a thread is taken, in bounded memory; or streamed."""

import asyncio
import io
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from werkzeug.exceptions import RequestEntityTooLarge

# No application accepts a larger body. What is larger is received and dropped, because many clients read no response
# while they are sending, and the application refuses it by its length.
MAX_BODY_BYTES = 16_000_000
MAX_DROPPED_BYTES = 100_000_000
# Bodies may take this much memory in total until they are answered; small ones do not count.
SMALL_BODY_BYTES = 65_536
MAX_MEMORY_BYTES = 256_000_000
# A connection whose client sends nothing is closed long before.
STREAM_SECONDS = 300

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


@dataclass(frozen=True)
class Refusal:
    """The response to a request that does not reach the application."""

    status: int
    code: str
    text: str
    retry: bool = False


FULL = Refusal(503, "server_full", "the server is full; try again in a moment", retry=True)
TOO_LARGE = Refusal(413, "request_entity_too_large", "the body is too large")


class BodyMemory:
    """The memory that the bodies of one process take until they are answered."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, size: int) -> bool:
        """Take memory; return whether there is enough."""
        if self._taken + size > MAX_MEMORY_BYTES:
            return False
        self._taken += size
        return True

    def give_back(self, size: int) -> None:
        """Return memory."""
        self._taken -= size


class RequestBody:
    """A body that is being received; within its block it keeps its memory."""

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._taken = 0
        self._data = bytearray()
        self._refusal: Refusal | None = None
        self.size = 0
        self.is_complete = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._drop()

    async def receive(self, receive: Receive) -> Refusal | None:
        """Receive all of it, or until the client disconnects; return why the request is refused, if it is."""
        while not self.is_complete:
            message = await receive()
            if message["type"] != "http.request":
                return None
            self._add(message.get("body", b""))
            if self.size > MAX_DROPPED_BYTES:
                return TOO_LARGE
            self.is_complete = not message.get("more_body", False)
        return self._refusal

    def stream(self) -> io.RawIOBase | io.BytesIO:
        """Return the body as a stream, once."""
        if self.size > MAX_BODY_BYTES:
            return _Dropped()
        data, self._data = self._data, bytearray()
        return io.BytesIO(data)

    def _add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > MAX_BODY_BYTES:
            # The application says that it is too large.
            self._refusal = None
            self._drop()
        elif self._refusal is None:
            if self.size > SMALL_BODY_BYTES:
                if not self._memory.take(len(part)):
                    self._refusal = FULL
                    self._drop()
                    return
                self._taken += len(part)
            self._data += part

    def _drop(self) -> None:
        self._data = bytearray()
        self._memory.give_back(self._taken)
        self._taken = 0


class StreamedBody(io.RawIOBase):
    """A body that the application reads on its thread while it arrives, as fast as the application reads."""

    def __init__(self, receive: Receive, loop: asyncio.AbstractEventLoop) -> None:
        self._receive = receive
        self._loop = loop
        self._rest = b""
        self.is_complete = False

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has arrived; raise OSError if the client has disconnected."""
        while not self._rest and not self.is_complete:
            self._rest = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result(STREAM_SECONDS)
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)

    async def drop(self) -> None:
        """Receive and drop what the application has not read, if that is not too much."""
        dropped = 0
        while not self.is_complete and dropped <= MAX_DROPPED_BYTES:
            try:
                dropped += len(await self._next())
            except ConnectionResetError:
                return

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            raise ConnectionResetError("the client has disconnected")
        self.is_complete = not message.get("more_body", False)
        return bytes(message.get("body", b""))


class _Dropped(io.RawIOBase):
    """The stream of a body that was dropped, for an application that does not look at its length first."""

    def readable(self) -> bool:
        """Return that it can be read, to say why there is nothing."""
        return True

    def readinto(self, _buffer: object) -> int:
        """Refuse."""
        raise RequestEntityTooLarge
