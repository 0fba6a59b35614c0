"""Requests that nobody would send: Label Studio's calls, spoiled at random."""

import copy
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

from templates import find_pack
from tests.conftest import PACKS
from tests.fakes import calls
from tests.integration.serving.running import Running

ALLOWED = {200, 204, 400, 404, 405, 408, 413, 422, 503}
PASSAGE = "Marie Curie discovered polonium and radium in Paris in 1898."


@dataclass(frozen=True)
class Request:
    """One request as it goes over the wire."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


@cache
def _sound_bodies() -> tuple[tuple[str, str, str], ...]:
    """Calls that are all right: task, route and body, as JSON, which is sooner read than copied."""
    found: list[tuple[str, str, Any]] = []
    hook = {"action": "ANNOTATION_CREATED", "project": {"id": 14, "title": "x"}, "annotation": {"result": []}}
    for name in PACKS:
        pack = find_pack(name)
        written = calls.writes(pack, "It looks negative.")
        found += [(name, "predict", calls.predict(pack, written)), (name, "predict", calls.bulk(pack, 3))]
        found += [(name, "predict", calls.predict(pack, written, template="validate"))]
        found += [(name, "setup", calls.setup(pack)), (name, "webhook", hook)]
    qa = find_pack("qa")
    span = calls.selects(qa, PASSAGE, "polonium")
    found.append(("qa", "predict", calls.predict(qa, span, data={"passage": PASSAGE})))
    return tuple((task, route, json.dumps(body)) for task, route, body in found)


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 2**31, 2**63, 10**400, 1e308, float("inf"), float("nan"), -0.0]),
    st.sampled_from(["", " ", "\x00", "\ud800", "🦊" * 30, "x" * 25_000, "</View>", "{prediction}", "../..", "١٢"]),
    st.sampled_from([[], {}, [[]], [None], {"": None}, {"result": [{}]}, {"text": ["x"]}, {"text": "x"}]),
    st.text(max_size=30),
    st.lists(st.integers() | st.text(max_size=5), max_size=4),
).map(copy.deepcopy)
# An empty one leaves it as it is.
TASKS = st.sampled_from([""] * 30 + ["poetry", "a%2fb", "x" * 70])
ROUTES = st.sampled_from([""] * 30 + ["predict", "versions", "health", "nothing"])
NUMBERS = st.sampled_from([""] * 12 + ["/rounds/1", "/rounds/0", "/rounds/99999999999", "/rounds/-1"])
METHODS = st.sampled_from(["POST"] * 30 + ["GET", "PUT"])
TYPES = st.sampled_from(["application/json", "text/plain", "x"])
IDS = st.sampled_from(["a-1", "", "x" * 200, "<b>"])
NAMES = st.sampled_from(["text", "question", "passage", "label", "answer", "value", "result", "target", "id"])


def _spoiled(draw: st.DrawFn, body: Any) -> Any:
    for _ in range(draw(st.integers(0, 3))):
        spot = body
        while True:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            if not keys:
                break
            key = keys[draw(st.integers(0, len(keys) - 1))]
            if isinstance(spot[key], dict | list) and spot[key] and draw(st.integers(0, 3)):
                spot = spot[key]
                continue
            if draw(st.booleans()) or isinstance(spot, list):
                spot[key] = draw(ODD)
            else:
                del spot[key]
                spot[draw(NAMES)] = draw(ODD)
            break
    return body


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """One request, more or less spoiled."""
    bodies = _sound_bodies()
    task, route, sound = bodies[draw(st.integers(0, len(bodies) - 1))]
    raw = json.dumps(_spoiled(draw, json.loads(sound))).encode()
    damage = draw(st.integers(0, 19))
    if damage == 0:
        raw = raw[: draw(st.integers(0, len(raw)))]
    elif damage == 1:
        raw = draw(st.binary(max_size=60))
    elif damage == 2:
        place = draw(st.integers(0, len(raw)))
        raw = raw[:place] + draw(st.binary(max_size=4)) + raw[place:]
    task = draw(TASKS) or task
    route = draw(ROUTES) or route
    number, method = draw(NUMBERS), draw(METHODS)
    headers = {"Content-Type": draw(TYPES), "X-Request-ID": draw(IDS)}
    return Request(method, f"/tasks/{task}{number}/{route}", raw, headers)


def check(backend: Running, request: Request) -> int:
    """Sends it; what comes back must be an answer of the protocol, or one clear line that says what is wrong."""
    answer = backend.request(request.method, request.path, request.body, **request.headers)
    assert answer.status in ALLOWED, (answer.status, answer.body)
    if answer.status >= 400:
        text = answer.json["error"]
        assert isinstance(text, str)
        assert text.strip()
        assert "\n" not in text
    elif answer.status == 200 and request.path.endswith("/predict"):
        tasks = json.loads(request.body)["tasks"]
        assert len(answer.json["results"]) == len(tasks)
        for one in answer.json["results"]:
            assert one.keys() == {"model_version", "score", "result"}
    return answer.status
