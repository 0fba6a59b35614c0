"""What is wrong with a value, in the words of whoever wrote it: no type, class or pattern of the program."""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from common.text import count

LONGEST_SHOWN = 40
# What each pattern in the settings asks for, by how it begins.
PATTERNS = {
    "^[a-z][a-z0-9_]": "begins with a small letter and has small letters, digits and _ only, at most 40 of them",
    "^[a-z]{2,3}": "is two or three small letters, perhaps with a region, such as en or pt-BR",
}
WHOLE_NUMBER = ("int_type", "int_parsing", "int_from_float", "int_parsing_size", "finite_number")
NUMBER = ("float_type", "float_parsing")
TRUTH = ("bool_type", "bool_parsing")


def shown(value: Any) -> str:
    """A value as its author would point at it."""
    if isinstance(value, str):
        return f"`{value[:LONGEST_SHOWN]}{'…' if len(value) > LONGEST_SHOWN else ''}`"
    if isinstance(value, Mapping):
        return "a group of settings"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bytes):
        return "binary data"
    if isinstance(value, date):
        return f"the date {value}"
    return shown_json(value)


def shown_json(value: Any) -> str:
    """A value of a JSON line as it stands there, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def fault_of(kind: str, value: Any, limits: Mapping[str, Any]) -> str:
    """What is wrong, after the setting's name: `is 12, and 9 is the most`; `kind` and `limits` are pydantic's."""
    if _is_empty(value):
        return "is empty"
    if kind in WHOLE_NUMBER:
        return f"is {shown(value)}, and should be a whole number"
    if kind in NUMBER:
        return f"is {shown(value)}, and should be a number"
    if kind in TRUTH:
        return f"is {shown(value)}"
    if kind == "string_type":
        return f"is {shown(value)}, and should be text{'' if isinstance(value, list | dict) else ' (in quotes)'}"
    if kind == "tuple_type":
        return f"is {shown(value)}, and should be a list"
    return _outside(kind, value, limits) or f"is {shown(value)}, which does not fit"


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | Mapping) and not value)


def _outside(kind: str, value: Any, limits: Mapping[str, Any]) -> str:
    """What is wrong with a value of the right kind that is too much, too little, or none of those that are known."""
    if kind == "string_pattern_mismatch":
        rule = next((words for start, words in PATTERNS.items() if limits["pattern"].startswith(start)), "")
        return f"is {shown(value)}, and what stands here {rule}" if rule else ""
    if kind == "string_too_long":
        return f"has {count(len(value), 'character')}, and {limits['max_length']:,} is the most"
    if kind in ("too_short", "too_long"):
        least = kind == "too_short"
        limit = limits["min_length" if least else "max_length"]
        return f"has {count(len(value), 'entry', 'entries')}, and {limit:,} is the {'least' if least else 'most'}"
    for name, words in (("ge", "is the least"), ("le", "is the most")):
        if name in limits:
            return f"is {shown(value)}, and {_number(limits[name])} {words}"
    for name, words in (("gt", "more than"), ("lt", "less than")):
        if name in limits:
            return f"is {shown(value)}, and has to be {words} {_number(limits[name])}"
    return f"is {shown(value)}" if kind == "literal_error" else ""


def _number(limit: float) -> str:
    return f"{int(limit) if limit == int(limit) else limit:,}"
