"""Malformed requests: Label Studio's calls, changed at random."""

import copy
import json
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from templates import find_pack
from tests.conftest import PACKS
from tests.fakes import calls
from tests.integration.ml_backend.serving.running import Running

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


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 10**400, 1e308, float("inf"), float("nan"), -0.0),
    *("", " ", "\x00", "\ud800", "🦊" * 30, "x" * 25_000, "</View>", "{prediction}", "../..", "١٢"),
    *([], {}, [[]], [None], {"": None}, {"result": [{}]}, {"text": ["x"]}, {"text": "x"}),
)
# Of which texts are made at random: what people type, controls, marks that join, and all the rest.
ALPHABETS = ((32, 126), (0, 31), (0xA0, 0x24F), (0x300, 0x36F), (0x600, 0x6FF), (0x2000, 0x206F), (0x10000, 0x10FFFF))
TASKS = ("poetry", "a%2fb", "x" * 70)
ROUTES = ("predict", "versions", "health", "nothing")
NUMBERS = ("/rounds/1", "/rounds/0", "/rounds/99999999999", "/rounds/-1")
METHODS = ("GET", "PUT")
TYPES = ("application/json", "text/plain", "x")
IDS = ("a-1", "", "x" * 200, "<b>")
NAMES = ("text", "question", "passage", "label", "answer", "value", "result", "target", "id")


def request(dice: Random) -> Request:
    """Return one request, more or less malformed; the same generator state gives the same one."""
    task, route, sound = dice.choice(_sound_bodies())
    raw = _damaged(dice, json.dumps(_changed(dice, json.loads(sound))).encode())
    task = dice.choice(TASKS) if dice.random() < 0.1 else task
    route = dice.choice(ROUTES) if dice.random() < 0.1 else route
    number = dice.choice(NUMBERS) if dice.random() < 0.25 else ""
    method = dice.choice(METHODS) if dice.random() < 0.07 else "POST"
    headers = {"Content-Type": dice.choice(TYPES), "X-Request-ID": dice.choice(IDS)}
    return Request(method, f"/tasks/{task}{number}/{route}", raw, headers)


def _changed(dice: Random, body: Any) -> Any:
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 3))):
        spot = body
        while True:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            if not keys:
                break
            key = dice.choice(keys)
            if isinstance(spot[key], dict | list) and spot[key] and dice.random() < 0.75:
                spot = spot[key]
                continue
            if dice.random() < 0.5 or isinstance(spot, list):
                spot[key] = _odd(dice)
            else:
                del spot[key]
                spot[dice.choice(NAMES)] = _odd(dice)
            break
    return body


def _odd(dice: Random) -> Any:
    kind = dice.random()
    if kind < 0.6:
        return copy.deepcopy(dice.choice(ODD_VALUES))
    if kind < 0.8:
        return _text(dice, 30)
    whole = dice.choice((8, 32, 64, 128))
    return [
        _text(dice, 5) if dice.random() < 0.5 else dice.randint(-(2**whole), 2**whole)
        for _ in range(dice.randint(0, 4))
    ]


def _text(dice: Random, most: int) -> str:
    return "".join(chr(dice.randint(*dice.choice(ALPHABETS))) for _ in range(dice.randint(0, most)))


def _damaged(dice: Random, raw: bytes) -> bytes:
    damage, place = dice.randrange(20), dice.randint(0, len(raw))
    if damage == 0:
        return raw[:place]
    if damage == 1:
        return dice.randbytes(dice.randint(0, 60))
    if damage == 2:
        return raw[:place] + dice.randbytes(dice.randint(0, 4)) + raw[place:]
    return raw


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
