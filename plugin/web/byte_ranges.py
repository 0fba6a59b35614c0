"""Parts of a file over HTTP: which bytes a request wants (RFC 9110, section 14)."""

from dataclasses import dataclass

from werkzeug.datastructures import Headers
from werkzeug.exceptions import RequestedRangeNotSatisfiable
from werkzeug.http import parse_range_header


@dataclass(frozen=True)
class Span:
    """From the byte `start` up to `stop`."""

    start: int
    stop: int

    def told(self, size: int) -> str:
        """The header Content-Range."""
        return f"bytes {self.start}-{self.stop - 1}/{size}"


def asked_span(headers: Headers, size: int, etag: str) -> Span | None:
    """The one part that is asked for; None where all of the file is to be sent.

    That is so for several parts at once, for what is no range, and for a part of a file that was another one then.
    """
    asked = parse_range_header(headers.get("Range"))
    if asked is None or asked.units != "bytes" or len(asked.ranges) != 1:
        return None
    if headers.get("If-Range", etag) != etag:
        return None
    start, stop = asked.ranges[0]
    span = Span(max(0, start + size) if start < 0 else start, size if stop is None else min(stop, size))
    if span.start >= span.stop:
        raise RequestedRangeNotSatisfiable(size)
    return span
