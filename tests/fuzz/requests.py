"""Strategies for requests: every route of the three servers, and every operation of MTurk's service model.

Hypothesis chooses route, parameters and headers. Bodies are changed by a generator whose seed Hypothesis chooses:
drawing every part of a body takes longer than answering it.
"""

import re
import time
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from plugin.attempt_delivery import sign
from tests.fuzz.mutation import changed, encoded, odd
from tests.fuzz.operations import operation_requests
from tests.fuzz.sent import Sent
from tests.fuzz.world import World
from tests.integration.plugin.web.work.work_site import SECRET

PARAMETER = re.compile(r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>")
ODD_SEGMENTS = (
    *(
        "..",
        "%2e%2e%2f",
        "a%2fb",
        "%00",
        "%ff",
        "x" * 300,
        "-1",
        "0",
        "99999999999999999999",
        "\u0661",
        "%F0%9F%A6%8A",
        "a b",
    ),
    *("manifest.json%00", "~", "'", '"', "<b>", "{}", "null", ".", "%", "%zz", "*"),
)
ODD_HEADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Content-Type",
        ("application/json", "text/plain", "x", "application/x-www-form-urlencoded", "multipart/form-data"),
    ),
    ("Content-Type", ("multipart/form-data; boundary=", "application/json; charset=utf-16", ";;;", "\xff")),
    ("Accept", ("text/html", "*/*", "application/json;q=0", "text/html;q=x", ",,,;;", "\xff")),
    ("Accept-Encoding", ("gzip", "gzip;q=0", "br, *;q=0", "identity;q=0,*;q=0")),
    ("X-Request-ID", ("a-1", "", "x" * 200, "<b>", "\xff")),
    ("Range", ("bytes=0-1", "bytes=-1", "bytes=9-1", "bytes=0-,1-", "x", "bytes=99999999999999999999-", "bytes=")),
    ("If-None-Match", ('"x"', "*", "W/", ",")),
    ("If-Range", ('"x"', "Mon, 01 Jan 2027 00:00:00 GMT", "x")),
    ("Content-Length", ("0", "1", "-1", "x", "99999999999999999999", "")),
    ("Cookie", ("outfox_worker=x", "outfox_worker=\xff; a", ";;;=", "outfox_joining=" + "x" * 9_000)),
    (
        "Authorization",
        ("Bearer ", "Bearer x.y", "Basic %%%", "Basic", "AWS4-HMAC-SHA256 x", "\xff", "bearer " + "A" * 9_000),
    ),
    ("X-Forwarded-For", ("10.0.0.1", "x", "1, 2, 3")),
    ("Host", ("evil.example", "", "a:b:c", "[::1", "\xff")),
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "FOX")


def requests(world: World) -> st.SearchStrategy[Sent]:
    """Return requests to all three servers."""
    routes = route_requests(world)
    # Operations are as many routes of their own.
    return st.one_of(routes, routes, operation_requests(world))


def route_requests(world: World) -> st.SearchStrategy[Sent]:
    """Return requests to every route, most with valid credentials and a body that is nearly right."""
    routes = [
        (server, rule.rule, rule.endpoint, method)
        for server, rules in world.routes.items()
        for rule in rules.iter_rules()
        for method in sorted(rule.methods or ())
    ]
    # Predictions are answered before Flask sees them.
    routes += [("ml_backend", f"/tasks/<task>{rounds}/predict", "predict", "POST") for rounds in ("", ROUND)] * 6

    @st.composite
    def request(draw: st.DrawFn) -> Sent:
        server, rule, endpoint, method = draw(st.sampled_from(routes))
        dice = Random(draw(st.integers(0, 2**32)))
        path = PARAMETER.sub(lambda found: _argument(draw, dice, world, found[2]), rule)
        if dice.random() < 0.05:
            method = draw(st.sampled_from(METHODS))
        headers, client = _headers(draw, dice, world, server, endpoint)
        body = b""
        if method not in ("GET", "HEAD"):
            body, content_type = _body(dice, world, server, endpoint)
            headers = {"Content-Type": content_type, **headers}
        if endpoint == "attempts" and dice.random() < 0.8:
            headers |= sign([SECRET], body, time.time())
        return Sent(server, endpoint, method, path + _query(draw, dice, world, server, endpoint), headers, body, client)

    return request()


ROUND = "/rounds/<int:round_number>"


def _argument(draw: st.DrawFn, dice: Random, world: World, name: str) -> str:
    kind = dice.random()
    if kind < 0.85 and name in world.known:
        return draw(st.sampled_from(world.known[name]))
    if kind < 0.95:
        return draw(st.sampled_from(ODD_SEGMENTS))
    return quote(draw(st.text(max_size=12)).encode("utf-8", "surrogatepass"), safe="")


def _headers(draw: st.DrawFn, dice: Random, world: World, server: str, endpoint: str) -> tuple[dict[str, str], str]:
    """Return headers and the client's address: wrong passwords come from many addresses."""
    valid = world.headers.get((server, endpoint.partition(".")[0])) or world.headers.get((server, ""), ())
    headers: dict[str, str] = {}
    if valid and dice.random() < 0.9:
        headers |= draw(st.sampled_from(valid))
    if dice.random() < 0.4:
        for name, values in draw(st.lists(st.sampled_from(ODD_HEADERS), min_size=1, max_size=3)):
            headers[name] = draw(st.sampled_from(values))
    is_valid = headers.get("Authorization") in {one.get("Authorization") for one in valid}
    return headers, "127.0.0.1" if is_valid else f"10.0.{dice.randrange(256)}.{dice.randrange(256)}"


def _query(draw: st.DrawFn, dice: Random, world: World, server: str, endpoint: str) -> str:
    found = world.queries.get((server, endpoint), ())
    if found and dice.random() < 0.8:
        parts = draw(st.sampled_from(found)).split("&")
        if dice.random() < 0.5:
            parts[dice.randrange(len(parts))] = f"{dice.choice('abc')}={quote(str(odd(dice))[:200], errors='replace')}"
        return "?" + "&".join(parts)
    if dice.random() < 0.8:
        return ""
    return "?" + draw(
        st.sampled_from(("v=1", "token=x", "said=welcome", "page=-1", "page=9e9", "%ff=%ff", "&&=", "x" * 999))
    )


def _body(dice: Random, world: World, server: str, endpoint: str) -> tuple[bytes, str]:
    sound = world.bodies.get((server, endpoint))
    if sound is None and server == "marketplace":
        form = changed(dice, dice.choice(world.bodies[server, "form"]))
        values = {str(name): str(value)[:3_000] for name, value in form.items()}
        return urlencode(values, errors="replace").encode(), "application/x-www-form-urlencoded"
    body: Any = changed(dice, dice.choice(sound) if sound else {"text": "x"})
    return encoded(dice, body), "application/json"
