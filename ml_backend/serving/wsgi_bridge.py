"""The bridge from uvicorn's connections to a WSGI application, which answers on a thread.

A thread is taken when a request has arrived completely, and returned before its response is sent. A response that is an
asynchronous iterable, such as a stream of events, is produced without a thread; see docs/server.md.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIApplication, WSGIEnvironment

from ml_backend.serving.request_body import BodyMemory, Message, Receive, Refusal, RequestBody
from ml_backend.serving.request_threads import RequestThreads

# How much of a response with a known length is produced at a time.
BATCH_BYTES = 262_144
NO_CONTENT, NOT_MODIFIED = 204, 304
_FAILED = b'{"error":"the server failed; its log says where","code":"internal_error","retry":true,"hint":null}'
_UNPREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


@dataclass
class _Reply:
    """A response: its first part, and where the rest comes from."""

    status: int
    headers: Headers
    body: bytes = b""
    rest: Iterator[bytes] | AsyncIterable[bytes] | None = None
    batch_bytes: int = 0
    close: Callable[[], None] = field(default=lambda: None)

    @property
    def is_complete(self) -> bool:
        """Whether all of it was produced."""
        return self.rest is None


class WsgiBridge:
    """The ASGI application that uvicorn calls; it answers with a WSGI application."""

    def __init__(self, app: WSGIApplication, threads: RequestThreads) -> None:
        self._app = app
        self._threads = threads
        self._names: dict[bytes, str] = {}
        self._memory = BodyMemory()
        self._streams: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = RequestBody(self._memory)
        refusal = await body.receive(receive)
        if refusal is not None:
            await _send_refusal(refusal, send)
        elif body.is_complete:
            environ = self._environ(scope, body)
            await self._send(await self._on_thread(partial(self._answer, environ)), receive, send)

    def end_streams(self) -> None:
        """End the responses that are asynchronous streams; most have no end of their own."""
        for one in self._streams:
            one.cancel()

    def _environ(self, scope: Message, body: RequestBody) -> WSGIEnvironment:
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
            "wsgi.input": body.stream(),
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
        if environ.pop("HTTP_TRANSFER_ENCODING", None) is not None:
            environ["CONTENT_LENGTH"] = str(body.size)
        return environ

    def _remember(self, name: bytes) -> str:
        """Return the key of a header; it is empty for a name with an underscore, which could stand for another one."""
        key = name.decode("latin-1").upper().replace("-", "_")
        key = "" if b"_" in name else key if key in _UNPREFIXED else f"HTTP_{key}"
        if key and len(self._names) < 1_000:
            self._names[name] = key
        return key

    async def _on_thread(self, call: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Result] = loop.create_future()
        self._threads.submit(partial(_run, call, loop, result))
        return await result

    def _answer(self, environ: WSGIEnvironment) -> _Reply:
        """Call the application; runs on a thread."""
        reply = _Reply(500, [])
        written: list[bytes] = []

        def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None, /) -> Any:
            reply.status = int(status[:3])
            reply.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            return written.append

        try:
            result: Iterable[bytes] | AsyncIterable[bytes] = self._app(environ, start_response)
            reply.close = getattr(result, "close", reply.close)
            if isinstance(result, AsyncIterable):
                reply.rest = result
                return reply
            has_length = any(name == b"content-length" for name, _ in reply.headers)
            reply.batch_bytes = BATCH_BYTES if has_length or isinstance(result, list | tuple) else 1
            reply.rest = iter(result)
            reply.body = b"".join(written) + _next_batch(reply)
        except Exception:  # noqa: BLE001 - the process's edge: the client gets an answer in any case
            _log.exception("the application failed")
            return _Reply(500, [(b"content-type", b"application/json")], _FAILED)
        if reply.is_complete and not has_length and reply.status not in (NO_CONTENT, NOT_MODIFIED):
            reply.headers.append((b"content-length", str(len(reply.body)).encode("ascii")))
        return reply

    async def _send(self, reply: _Reply, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        if isinstance(reply.rest, AsyncIterable):
            await self._send_stream(reply.rest, receive, send)
            return
        await send({"type": "http.response.body", "body": reply.body, "more_body": not reply.is_complete})
        if reply.is_complete:
            return
        gone = asyncio.ensure_future(receive())
        try:
            while not reply.is_complete and not gone.done():
                batch = await self._on_thread(partial(_next_batch, reply))
                await send({"type": "http.response.body", "body": batch, "more_body": not reply.is_complete})
        finally:
            gone.cancel()
            if not reply.is_complete:
                self._threads.submit(partial(_close, reply))

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
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(sending)
            gone.cancel()
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _run(call: Callable[[], Result], loop: asyncio.AbstractEventLoop, result: asyncio.Future[Result]) -> None:
    """Call a function on this thread, and hand its result over to the loop."""

    def hand_over(value: Result | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    value, error = None, None
    try:
        value = call()
    except Exception as raised:  # noqa: BLE001 - raised where the result is awaited
        error = raised
    with suppress(RuntimeError):  # The loop has ended: nobody waits for the result.
        loop.call_soon_threadsafe(hand_over, value, error)


def _next_batch(reply: _Reply) -> bytes:
    """Return the next part of the response; close the response when it was the last one."""
    parts, size = [], 0
    assert isinstance(reply.rest, Iterator)  # noqa: S101 - for the types
    for part in reply.rest:
        parts.append(part)
        size += len(part)
        if size >= reply.batch_bytes:
            return b"".join(parts)
    _close(reply)
    return b"".join(parts)


def _close(reply: _Reply) -> None:
    reply.rest = None
    try:
        reply.close()
    except Exception:  # noqa: BLE001 - the response was produced
        _log.exception("a response could not be closed")


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
