"""Rows of packs and of uploaded files: strict JSON, and values that can be stored and shown unchanged."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from common.text import count

MAX_ID_CHARS = 180
MAX_SHOWN_CHARS = 40
# The suffix that a context's id gets when its text changes.
CHANGED_SUFFIX = re.compile(r"@[0-9a-f]{12}$")
# Characters that end a line, move the cursor or change the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class InvalidJsonValue(ValueError):
    """A line that is JSON but cannot be stored unchanged; the message says how to fix it."""


def read_json_line(line: str) -> Any:
    """Parse a line of JSON. Repeated names and impossible numbers raise InvalidJsonValue, other errors ValueError."""
    return json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_float, parse_int=_int)


def shown_json(value: Any) -> str:
    """Return a value as JSON for a message, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def text_problems(row: Mapping[str, Any]) -> list[str]:
    """Return what a database cannot store in the row."""
    problems = []
    text = json.dumps(row, ensure_ascii=False)
    if "\\u0000" in text.replace("\\\\", ""):
        problems.append("contains the character NUL; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        problems.append("contains half of a character (a lone surrogate); remove it")
    return problems


def id_problems(row_id: str) -> list[str]:
    """Return what keeps an id from being shown and copied as one line of text."""
    found = _CONTROL.search(row_id)
    return [f"the id contains the character {json.dumps(found[0])}; use one line of plain text"] if found else []


def context_id_problems(row_id: str) -> list[str]:
    """Return the problems of a context's id, which is also searched for and gets a suffix when its text changes."""
    if not 0 < len(row_id) <= MAX_ID_CHARS:
        return [f"the id has {count(len(row_id), 'character')}; use 1 to {MAX_ID_CHARS}"]
    if CHANGED_SUFFIX.search(row_id):
        return [f"id {shown_json(row_id)} ends with a suffix that the program adds; choose another id"]
    if problems := id_problems(row_id):
        return problems
    return [f"id {shown_json(row_id)} begins or ends with a space; remove it"] if row_id != row_id.strip() else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidJsonValue(f"has `{name[:MAX_SHOWN_CHARS]}` twice; remove one")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise InvalidJsonValue(f"has {name}, which is not a JSON number; quote it or remove it")


def _float(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise InvalidJsonValue(_too_large(digits))
    return number


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # Python limits the number of digits.
        raise InvalidJsonValue(_too_large(digits)) from error


def _too_large(digits: str) -> str:
    return f"has a number that is too large, {digits[:20]}{'…' if len(digits) > 20 else ''}; quote it"
