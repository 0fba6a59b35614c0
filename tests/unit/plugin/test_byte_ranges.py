"""Which bytes a request wants."""

import pytest
from werkzeug.datastructures import Headers
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from plugin.web.data_routes import requested_span

ETAG = '"abc"'


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("bytes=0-0", range(1)),
        ("bytes=10-19", range(10, 20)),
        ("bytes=90-", range(90, 100)),
        ("bytes=90-500", range(90, 100)),
        ("bytes=-5", range(95, 100)),
        ("bytes=-500", range(100)),
    ],
)
def test_a_range_is_limited_to_the_file(asked: str, wanted: range) -> None:
    assert requested_span(Headers({"Range": asked}), 100, ETAG) == wanted


@pytest.mark.parametrize("asked", ["", "bytes", "lines=1-2", "bytes=5-2", "bytes=x-y", "bytes=0-1,5-6"])
def test_several_ranges_and_invalid_ones_get_the_whole_file(asked: str) -> None:
    assert requested_span(Headers({"Range": asked}), 100, ETAG) is None


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=100-120"])
def test_bytes_beyond_the_end_are_refused(asked: str) -> None:
    with pytest.raises(RequestedRangeNotSatisfiable):
        requested_span(Headers({"Range": asked}), 100, ETAG)


@pytest.mark.parametrize("then", ['"other"', f"W/{ETAG}", "yesterday"])
def test_a_range_of_an_older_version_gets_the_whole_file(then: str) -> None:
    asked = Headers({"Range": "bytes=1-2", "If-Range": then})
    assert requested_span(asked, 100, ETAG) is None
    asked["If-Range"] = ETAG
    assert requested_span(asked, 100, ETAG) == range(1, 3)
