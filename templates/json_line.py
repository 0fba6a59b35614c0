"""One line of JSON, read strictly: no name twice, and no number that JSON or a database does not have."""

import json
import math
from typing import Any, NoReturn


class Unfit(ValueError):
    """A line that can be read and not be kept as it is; the text has the cure."""


def read_json_line(line: str) -> Any:
    """What the line says; Unfit where it says two things or no number, another ValueError where it is not JSON."""
    return json.loads(line, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_float, parse_int=_int)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Unfit(f"has `{name[:40]}` twice; keep one of them")
        found[name] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise Unfit(f"has {name}, which is no number in JSON; put it in quotes, or leave it out")


def _float(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise Unfit(_too_large(digits))
    return number


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # Python reads a few thousand digits at most.
        raise Unfit(_too_large(digits)) from error


def _too_large(digits: str) -> str:
    return f"has a number that is too large, {digits[:20]}{'…' if len(digits) > 20 else ''}; put it in quotes"
