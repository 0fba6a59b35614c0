"""Sound JSON bodies, changed and damaged at random; the same generator state gives the same result."""

import copy
import json
from random import Random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 10**400, 1e308, float("inf"), float("nan"), -0.0),
    *(
        "",
        " ",
        "\x00",
        "\ud800",
        "🦊" * 30,
        "x" * 25_000,
        "</View>",
        "{prediction}",
        "../..",
        "١٢",
        "2027-01-01",
        "0x10",
    ),
    *([], {}, [[]], [None], {"": None}, {"result": [{}]}, {"text": ["x"]}, {"text": "x"}, [{}] * 40),
)
# Random texts are made of these: what people type, controls, combining marks, and everything else.
ALPHABETS = ((32, 126), (0, 31), (0xA0, 0x24F), (0x300, 0x36F), (0x600, 0x6FF), (0x2000, 0x206F), (0x10000, 0x10FFFF))
NAMES = ("text", "question", "passage", "label", "answer", "value", "result", "target", "id", "mark", "active_ms")


def changed(dice: Random, body: Any) -> Any:
    """Return the body with up to three values replaced, renamed or removed."""
    body = copy.deepcopy(body)
    for _ in range(dice.choice((0, 0, 1, 1, 1, 2, 2, 3))):
        spot = body
        while isinstance(spot, dict | list) and spot:
            key = dice.choice(list(spot) if isinstance(spot, dict) else range(len(spot)))
            if isinstance(spot[key], dict | list) and spot[key] and dice.random() < 0.75:
                spot = spot[key]
                continue
            if dice.random() < 0.5 or isinstance(spot, list):
                spot[key] = odd(dice)
            else:
                del spot[key]
                if dice.random() < 0.7:
                    spot[dice.choice(NAMES)] = odd(dice)
            break
    return body


def odd(dice: Random) -> Any:
    """Return a value that programs rarely send."""
    kind = dice.random()
    if kind < 0.6:
        return copy.deepcopy(dice.choice(ODD_VALUES))
    if kind < 0.8:
        return text(dice, 30)
    size = dice.choice((8, 32, 64, 128))
    return [
        text(dice, 5) if dice.random() < 0.5 else dice.randint(-(2**size), 2**size) for _ in range(dice.randint(0, 4))
    ]


def text(dice: Random, most: int) -> str:
    """Return a random text."""
    return "".join(chr(dice.randint(*dice.choice(ALPHABETS))) for _ in range(dice.randint(0, most)))


def encoded(dice: Random, body: Any) -> bytes:
    """Return the body as JSON, sometimes cut off, replaced or with random bytes in it."""
    raw = json.dumps(body).encode()
    damage, place = dice.randrange(20), dice.randint(0, len(raw))
    if damage == 0:
        return raw[:place]
    if damage == 1:
        return dice.randbytes(dice.randint(0, 60))
    if damage == 2:
        return raw[:place] + dice.randbytes(dice.randint(0, 4)) + raw[place:]
    return raw
