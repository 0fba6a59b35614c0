"""Request bodies: read completely, in bounded time and memory, as JSON only."""

import json
import time
from collections.abc import Mapping
from typing import Any

from ml_backend.serving.errors import BodyTimeout, InvalidRequest, RequestTooLarge
from ml_backend.serving.limiter import ConcurrencyLimiter

MAX_BYTES = 16_000_000
# Parsing a body of many small parts takes twenty times its size in memory: large ones are parsed one at a time.
LARGE_BYTES = 1_000_000
MAX_DISCARDED_BYTES = 100_000_000
IDLE_SECONDS = 10.0

Environ = Mapping[str, Any]


class BodyReader:
    """Reads the bodies of requests."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._large = ConcurrencyLimiter(at_once=1, room=8)

    def json(self, environ: Environ, deadline: float) -> object:
        """Return the parsed body; raise a RequestRefused if it cannot be read."""
        length = _length(environ)
        if length is not None and length > self._max_bytes:
            _discard(environ, deadline)
            raise self._too_large()
        if length is not None and length <= LARGE_BYTES:
            return _parsed(_read(environ, length))
        with self._large.slot(deadline):
            body = _read(environ, self._max_bytes + 1 if length is None else length, exact=length is not None)
            if len(body) > self._max_bytes:
                raise self._too_large()
            return _parsed(body)

    def _too_large(self) -> RequestTooLarge:
        return RequestTooLarge(f"the body is larger than {self._max_bytes:,} bytes; send fewer tasks at a time")


def _length(environ: Environ) -> int | None:
    """Return the body's length; None for a chunked body."""
    length = environ.get("CONTENT_LENGTH") or ""
    if not length and "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return None
    if not length.isascii() or not (length or "0").isdigit() or len(length) > 18:
        raise InvalidRequest("Content-Length is not a number")
    return int(length or 0)


def _read(environ: Environ, size: int, *, exact: bool = True) -> bytes:
    connection = environ.get("gunicorn.socket")
    if connection is not None:
        # A client that stops sending must not occupy a thread.
        connection.settimeout(IDLE_SECONDS)
    try:
        body: bytes = environ["wsgi.input"].read(size)
    except TimeoutError as error:
        raise BodyTimeout("the body did not arrive in time; send it again") from error
    except Exception as error:  # The server in front may raise anything for a body that breaks off.
        raise InvalidRequest("the body cannot be read; send it again") from error
    if exact and len(body) < size:
        raise InvalidRequest("the body is shorter than its Content-Length; send it again")
    return body


def _discard(environ: Environ, deadline: float) -> None:
    """Read and discard a refused body, within limits: many clients read no response while they are sending."""
    left = MAX_DISCARDED_BYTES
    while left > 0 and time.monotonic() < deadline:
        piece = len(_read(environ, 65_536, exact=False))
        if not piece:
            return
        left -= piece


def _parsed(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except RecursionError as error:
        raise InvalidRequest("the body is nested too deeply; send plain tasks") from error
    except ValueError as error:
        raise InvalidRequest("the body is not JSON; send one JSON object in UTF-8") from error
    return parsed
