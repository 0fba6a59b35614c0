"""The bridge from uvicorn's connections to a WSGI application, which answers on a thread.

A thread is taken when a request has arrived completely, and returned before its response is sent. A response that is an
asynchronous iterable, such as a stream of events, is produced without a thread; see docs/server.md.
"""

import asyncio
import io
import json
import logging
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIApplication, WSGIEnvironment

from common.arrival import note_arrival
from ml_backend.serving.request_body import BodyMemory, Message, Receive, Refusal, RequestBody, StreamedBody
from ml_backend.serving.request_threads import RequestThreads

# How much of a response with a known length is produced at a time; a client that reads slowly keeps it in memory.
BATCH_BYTES = 65_536
MAX_KNOWN_NAMES, MAX_KNOWN_NAME = 1_000, 64
NO_CONTENT, NOT_MODIFIED = 204, 304
_FAILED = b'{"error":"the server failed; its log says where","code":"internal_error","retry":true,"hint":null}'
_UNPREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")

_log = logging.getLogger(__name__)

Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


def _request_context() -> Context:
    """Return the context variables of a request that arrives now."""
    context = copy_context()
    context.run(note_arrival)
    return context


@dataclass
class _Reply:
    """A response that is being produced: its first part, and where the rest comes from."""

    status: int = 500
    headers: Headers = field(default_factory=list)
    rest: Iterator[bytes] | AsyncIterable[bytes] | None = None
    close: Callable[[], None] | None = None
    # Whether all of it is produced before any of it is sent.
    is_buffered: bool = False
    # Its parts are produced on several threads; the application finds the same context variables on each.
    context: Context = field(default_factory=_request_context)

    @property
    def is_complete(self) -> bool:
        """Whether all of it was produced."""
        return self.rest is None

    @property
    def has_length(self) -> bool:
        """Whether the application has given its length."""
        return any(name == b"content-length" for name, _ in self.headers)

    def next_batch(self) -> bytes:
        """Return the next part."""
        parts, size = [], 0
        assert isinstance(self.rest, Iterator)  # noqa: S101 - for the types
        for part in self.rest:
            parts.append(part)
            size += len(part)
            if not self.is_buffered and size >= (BATCH_BYTES if self.has_length else 1):
                return b"".join(parts)
        self.rest = None
        return b"".join(parts)

    def close_quietly(self) -> None:
        """Tell the application that nothing more of it is needed."""
        try:
            if self.close is not None:
                self.context.run(self.close)
        except Exception:  # noqa: BLE001 - the response was produced
            _log.exception("a response could not be closed")


class WsgiBridge:
    """The ASGI application that uvicorn calls; it answers with a WSGI application.

    Requests whose path matches a pattern of `lanes` have threads of their own, and wait for no others. Bodies of
    requests whose path matches `streamed` are read by the application while they arrive.
    """

    def __init__(
        self,
        app: WSGIApplication,
        threads: RequestThreads,
        lanes: Mapping[re.Pattern[str], RequestThreads],
        streamed: re.Pattern[str] | None = None,
    ) -> None:
        self._app = app
        self._threads = threads
        self._lanes = lanes
        self._streamed = streamed
        self._names: dict[bytes, str] = {}
        self._memory = BodyMemory()
        self._streams: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        threads = next((one for pattern, one in self._lanes.items() if pattern.fullmatch(path)), self._threads)
        reply = _Reply()
        if self._streamed is not None and scope["method"] == "POST" and self._streamed.fullmatch(path):
            await self._answer_stream(scope, threads, receive, send)
            return
        with RequestBody(self._memory) as body:
            refusal = await body.receive(receive)
            if refusal is not None:
                await _send_refusal(refusal, send)
                return
            if not body.is_complete:
                return
            first = await _on_thread(threads, reply, partial(self._answer, reply, self._environ(scope, body)))
        try:
            await self._send(reply, first, threads, receive, send)
        finally:
            if not reply.is_complete and reply.close is not None:
                threads.submit(reply.close_quietly)

    async def _answer_stream(self, scope: Message, threads: RequestThreads, receive: Receive, send: Send) -> None:
        """Answer a request whose body the application reads while it arrives."""
        reply, body = _Reply(), StreamedBody(receive, asyncio.get_running_loop())
        environ = self._environ(scope, io.BufferedReader(body))
        first = await _on_thread(threads, reply, partial(self._answer, reply, environ))
        # Many clients read no response while they are sending.
        await body.drop()
        if not body.is_complete:
            reply.headers.append((b"connection", b"close"))
        try:
            await self._send(reply, first, threads, receive, send)
        finally:
            if not reply.is_complete and reply.close is not None:
                threads.submit(reply.close_quietly)

    def end_streams(self) -> None:
        """End the responses that are asynchronous streams; most have no end of their own."""
        self._is_stopping = True
        for one in self._streams:
            one.cancel()

    def _environ(self, scope: Message, body: RequestBody | io.BufferedReader) -> WSGIEnvironment:
        server, client = scope["server"] or ("", 0), scope["client"] or ("", 0)
        environ: WSGIEnvironment = {
            "REQUEST_METHOD": scope["method"],
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
            "QUERY_STRING": scope["query_string"].decode("latin-1"),
            "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
            "REMOTE_ADDR": client[0],
            "REMOTE_PORT": str(client[1]),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scope["scheme"],
            "wsgi.input": body.stream() if isinstance(body, RequestBody) else body,
            "wsgi.input_terminated": True,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        for name, value in scope["headers"]:
            key = self._names.get(name) or self._remember(name)
            if not key:
                continue
            text = value.decode("latin-1")
            environ[key] = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{text}" if key in environ else text
        if environ.pop("HTTP_TRANSFER_ENCODING", None) is not None and isinstance(body, RequestBody):
            environ["CONTENT_LENGTH"] = str(body.size)
        return environ

    def _remember(self, name: bytes) -> str:
        """Return the key of a header; it is empty for a name with an underscore, which could stand for another one."""
        key = name.decode("latin-1").upper().replace("-", "_")
        key = "" if b"_" in name else key if key in _UNPREFIXED else f"HTTP_{key}"
        if key and len(name) <= MAX_KNOWN_NAME and len(self._names) < MAX_KNOWN_NAMES:
            self._names[name] = key
        return key

    def _answer(self, reply: _Reply, environ: WSGIEnvironment) -> bytes:
        """Call the application; return the first part of its response. Runs on a thread."""
        written: list[bytes] = []

        def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None, /) -> Any:
            reply.status = int(status[:3])
            reply.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            return written.append

        try:
            result: Iterable[bytes] | AsyncIterable[bytes] = self._app(environ, start_response)
            reply.close = getattr(result, "close", None)
            if isinstance(result, AsyncIterable):
                reply.rest = result
                return b""
            # HTTP/1.0 has no chunks: the length of a response must be known.
            reply.is_buffered = isinstance(result, list | tuple) or environ["SERVER_PROTOCOL"] == "HTTP/1.0"
            reply.rest = iter(result)
            batch = reply.next_batch()
            body = b"".join(written) + batch
        except BaseException:  # noqa: BLE001 - the process's edge: the client gets an answer in any case
            _log.exception("the application failed")
            reply.status, reply.headers, reply.rest = 500, [(b"content-type", b"application/json")], None
            body = _FAILED
        has_body = environ["REQUEST_METHOD"] != "HEAD" and reply.status not in (NO_CONTENT, NOT_MODIFIED)
        if reply.is_complete and has_body and not reply.has_length:
            reply.headers.append((b"content-length", str(len(body)).encode("ascii")))
        return body

    async def _send(self, reply: _Reply, body: bytes, threads: RequestThreads, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        if isinstance(reply.rest, AsyncIterable):
            await self._send_stream(reply.rest, receive, send)
            return
        await send({"type": "http.response.body", "body": body, "more_body": not reply.is_complete})
        if reply.is_complete:
            return
        gone = asyncio.ensure_future(receive())
        try:
            while not reply.is_complete and not gone.done():
                batch = await _on_thread(threads, reply, reply.next_batch)
                await send({"type": "http.response.body", "body": batch, "more_body": not reply.is_complete})
        finally:
            gone.cancel()

    async def _send_stream(self, stream: AsyncIterable[bytes], receive: Receive, send: Send) -> None:
        """Send an asynchronous stream until it ends, its client disconnects or the server stops."""

        async def pump() -> None:
            try:
                async for piece in stream:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()

        sending, gone = asyncio.ensure_future(pump()), asyncio.ensure_future(receive())
        self._streams.add(sending)
        if self._is_stopping:
            sending.cancel()
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(sending)
            gone.cancel()
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _on_thread(threads: RequestThreads, reply: _Reply, call: Callable[[], bytes]) -> bytes:
    """Return a part of a response that is produced on one of the threads."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bytes] = loop.create_future()
    threads.submit(partial(_run, reply, call, loop, result))
    return await result


def _run(
    reply: _Reply, call: Callable[[], bytes], loop: asyncio.AbstractEventLoop, result: asyncio.Future[bytes]
) -> None:
    """Produce a part of a response on this thread, and hand it over to the loop."""

    def hand_over(part: bytes, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(part)

    part, error = b"", None
    try:
        part = reply.context.run(call)
    except Exception as raised:  # noqa: BLE001 - raised where the result is awaited
        error = raised
    except BaseException as raised:  # noqa: BLE001 - it must not end the loop
        error = RuntimeError(repr(raised))
    is_complete = reply.is_complete
    with suppress(RuntimeError):  # The loop has ended, and nothing waits for the result.
        loop.call_soon_threadsafe(hand_over, part, error)
    if is_complete:
        # The client does not wait for this.
        reply.close_quietly()


async def _send_refusal(refusal: Refusal, send: Send) -> None:
    data = {"error": refusal.text, "code": refusal.code, "retry": refusal.retry, "hint": None}
    body = json.dumps(data).encode("ascii")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
        (b"connection", b"close"),
    ]
    if refusal.retry:
        headers.append((b"retry-after", b"2"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
