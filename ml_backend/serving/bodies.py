"""Request bodies: read whole, in bounded time and memory, and as JSON only."""

import json
import time
from collections.abc import Mapping
from typing import Any

from ml_backend.serving.errors import RequestRefused
from ml_backend.serving.gate import Gate

MOST_BYTES = 16_000_000
# A body of many small pieces takes twenty times its length in memory when it is parsed: large ones go one at a time.
LARGE_BYTES = 1_000_000
DISCARDED_BYTES = 100_000_000
SECONDS_OF_SILENCE = 10.0

Environ = Mapping[str, Any]


class BodyReader:
    """Reads the bodies of requests."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._large = Gate(at_once=1, room=8)

    def json(self, environ: Environ, deadline: float) -> object:
        """What the body says, or a refusal that says what is wrong with it."""
        length = _length(environ)
        if length is not None and length > self._most_bytes:
            _discard(environ, deadline)
            raise self._too_large()
        if length is not None and length <= LARGE_BYTES:
            return _parsed(_read(environ, length))
        with self._large.turn(deadline):
            body = _read(environ, self._most_bytes + 1 if length is None else length, exact=length is not None)
            if len(body) > self._most_bytes:
                raise self._too_large()
            return _parsed(body)

    def _too_large(self) -> RequestRefused:
        return RequestRefused(413, f"the body is larger than {self._most_bytes:,} bytes; send fewer tasks at a time")


def _length(environ: Environ) -> int | None:
    """The body's length; None for a body that comes in chunks and tells its end by itself."""
    length = environ.get("CONTENT_LENGTH") or ""
    if not length and "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return None
    if not length.isascii() or not (length or "0").isdigit() or len(length) > 18:
        raise RequestRefused(400, "Content-Length is not a number")
    return int(length or 0)


def _read(environ: Environ, size: int, *, exact: bool = True) -> bytes:
    connection = environ.get("gunicorn.socket")
    if connection is not None:
        # A client that has stopped sending must not keep a thread.
        connection.settimeout(SECONDS_OF_SILENCE)
    try:
        body: bytes = environ["wsgi.input"].read(size)
    except TimeoutError as error:
        raise RequestRefused(408, "the body did not come in time; send it again") from error
    except Exception as error:  # Whatever the server in front of us raises for a body that breaks off.
        raise RequestRefused(400, "the body cannot be read; send it again") from error
    if exact and len(body) < size:
        raise RequestRefused(400, "the body is shorter than its Content-Length; send it again")
    return body


def _discard(environ: Environ, deadline: float) -> None:
    """Takes in a body that nobody wants, within limits: many clients hear no answer while they are still sending."""
    left = DISCARDED_BYTES
    while left > 0 and time.monotonic() < deadline:
        piece = len(_read(environ, 65_536, exact=False))
        if not piece:
            return
        left -= piece


def _parsed(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except RecursionError as error:
        raise RequestRefused(400, "the body has too many brackets inside each other; send plain tasks") from error
    except ValueError as error:
        raise RequestRefused(400, "the body is not JSON; send one JSON object in UTF-8") from error
    return parsed
