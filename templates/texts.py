"""Texts and rows that people write: strict JSON, texts that can be stored and shown unchanged, blank and long texts."""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from common.messages import filled
from common.text import count
from templates.spec import TaskField, TaskSpec

# Unicode categories of invisible characters: controls, formats (zero-width ones included), spaces and line ends.
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# The code and the text of a problem.
Mistake = tuple[str, str]

MAX_ID_CHARS = 180
MAX_SHOWN_CHARS = 40
# The suffix that a context's id gets when its text changes.
CHANGED_SUFFIX = re.compile(r"@[0-9a-f]{12}$")
# Characters that end a line, move the cursor or change the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class TooLong:
    """A text that is longer than its field allows."""

    field: TaskField
    length: int

    def sentence(self, spec: TaskSpec) -> str:
        """Return the message for its author, in the task's language."""
        slots = {"title": self.field.title, "length": str(self.length), "most": str(self.field.max_chars)}
        return filled(spec.messages.too_long, slots)


def too_long(field: TaskField, text: str) -> TooLong | None:
    """Return how long the text is if its field does not allow it, else None."""
    return TooLong(field, len(text)) if len(text) > field.max_chars else None


def first_too_long(spec: TaskSpec, texts: Mapping[str, str]) -> TooLong | None:
    """Return the first of these texts, by field name, that is too long. Contexts are never checked."""
    fields = (field for field in spec.fields if field.role != "context" and field.name in texts)
    return next((found for field in fields if (found := too_long(field, texts[field.name]))), None)


def attempt_text(spec: TaskSpec, number: int) -> str:
    """Return which attempt it was, in the task's language."""
    return filled(spec.messages.attempt, {"number": str(number), "most": str(spec.work.tries)})


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character."""
    return all(unicodedata.category(char) in INVISIBLE for char in text)


def lookalike_key(text: str) -> str:
    """Return a key that is equal for texts that differ only in case, spacing or Unicode form."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    visible = "".join(char for char in unicodedata.normalize("NFKC", folded) if unicodedata.category(char) != "Cf")
    return " ".join(visible.split())


def lookalikes(texts: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the index of each text that looks like an earlier one, and the index of that one."""
    seen: dict[str, int] = {}
    for index, text in enumerate(texts):
        first = seen.setdefault(lookalike_key(text), index)
        if first != index:
            yield index, first


class InvalidJsonRow(ValueError):
    """A line that is not a JSON object, or one that cannot be stored unchanged; the message says how to fix it."""


def read_json_row(line: str) -> dict[str, Any]:
    """Return the JSON object in a line; raise InvalidJsonRow if there is none, for repeated names and huge numbers."""
    hooks: Any = {"parse_constant": _no_constant, "parse_float": _float, "parse_int": _int}
    try:
        row = json.loads(line, object_pairs_hook=_unique, **hooks)
    except InvalidJsonRow:
        raise
    except (ValueError, RecursionError) as error:
        fix = "write one object per line, with double quotes and without a trailing comma"
        raise InvalidJsonRow(f"is not JSON; {fix}") from error
    if not isinstance(row, dict):
        raise InvalidJsonRow("is not a JSON object; put the row in braces")
    return row


def shown_json(value: Any) -> str:
    """Return a value as JSON for a message, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def text_problems(row: Mapping[str, Any]) -> list[Mistake]:
    """Return what a database cannot store in the row."""
    problems = []
    text = json.dumps(row, ensure_ascii=False)
    if "\\u0000" in text.replace("\\\\", ""):
        problems.append(("text_invalid", "contains the character NUL; remove it"))
    try:
        text.encode()
    except UnicodeEncodeError:
        problems.append(("text_invalid", "contains half of a character (a lone surrogate); remove it"))
    return problems


def id_problems(row_id: str) -> list[Mistake]:
    """Return what keeps an id from being shown and copied as one line of text."""
    found = _CONTROL.search(row_id)
    text = "use one line of plain text"
    return [("id_invalid", f"the id contains the character {json.dumps(found[0])}; {text}")] if found else []


def context_id_problems(row_id: str) -> list[Mistake]:
    """Return the problems of a context's id, which is also searched for and gets a suffix when its text changes."""
    if not 0 < len(row_id) <= MAX_ID_CHARS:
        return [("id_invalid", f"the id has {count(len(row_id), 'character')}; use 1 to {MAX_ID_CHARS}")]
    if CHANGED_SUFFIX.search(row_id):
        return [("id_invalid", f"id {shown_json(row_id)} ends with a suffix that the program adds; choose another id")]
    if problems := id_problems(row_id):
        return problems
    if row_id != row_id.strip():
        return [("id_invalid", f"id {shown_json(row_id)} begins or ends with a space; remove it")]
    return []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidJsonRow(f"has `{name[:MAX_SHOWN_CHARS]}` twice; remove one")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise InvalidJsonRow(f"has {name}, which is not a JSON number; quote it or remove it")


def _float(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise InvalidJsonRow(_too_large(digits))
    return number


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # Python limits the number of digits.
        raise InvalidJsonRow(_too_large(digits)) from error


def _too_large(digits: str) -> str:
    return f"has a number that is too large, {digits[:20]}{'…' if len(digits) > 20 else ''}; quote it"
