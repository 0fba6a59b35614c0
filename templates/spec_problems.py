"""Problems of a task.yaml that does not fit the specification, in its author's terms: no types, classes or patterns."""

from collections.abc import Mapping
from datetime import date
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from common.text import count
from templates.errors import Problem
from templates.sections import SettingConflict, SettingPath
from templates.spec import TaskSpec
from templates.texts import MAX_SHOWN_CHARS, shown_json
from templates.yaml_document import YamlDocument

# What each pattern requires, by its beginning.
PATTERNS = {
    "^[a-z][a-z0-9_]": "a name of small letters, digits and _, a letter first, at most 40 characters",
    "^[0-9A-Za-z]": "letters, digits, dots, + and -, at most 30 characters",
    "^[a-z]{2,3}": "a code of two or three small letters, optionally with a region, such as en or pt-BR",
}
WHOLE_NUMBER = ("int_type", "int_parsing", "int_from_float", "int_parsing_size", "finite_number")
NUMBER = ("float_type", "float_parsing")
TRUTH = ("bool_type", "bool_parsing")


def problems_of(error: ValidationError, document: YamlDocument) -> list[Problem]:
    """Return one Problem for each mistake, in the order of the file."""
    found = []
    details = error.errors(include_url=False)
    for detail in details:
        section = detail["loc"]
        # Invalid entries are not counted by pydantic; they are reported already.
        if detail["type"] == "too_short" and _has_invalid_entries(section, details):
            continue
        paths = [(*section, *path) for path in _conflicting_paths(detail)] or [section]
        written = next((path for path in paths if document.has(path)), paths[0])
        found.append(Problem("task.yaml", document.line_of(written), _code(detail), _sentence(detail, paths[0])))
    return sorted(found, key=lambda problem: problem.line or 0)


def _code(detail: ErrorDetails) -> str:
    kinds = {"missing": "setting_missing", "extra_forbidden": "setting_unknown", "value_error": "setting_conflict"}
    return kinds.get(detail["type"], "setting_invalid")


def _has_invalid_entries(path: SettingPath, details: list[ErrorDetails]) -> bool:
    return any(len(one["loc"]) > len(path) and one["loc"][: len(path)] == path for one in details)


def _conflicting_paths(detail: ErrorDetails) -> tuple[SettingPath, ...]:
    cause = detail.get("ctx", {}).get("error")
    return cause.paths if isinstance(cause, SettingConflict) else ()


def _sentence(detail: ErrorDetails, path: SettingPath) -> str:
    kind = detail["type"]
    name = ".".join(str(step) for step in path) or "the file"
    if kind == "value_error":
        return f"{name}: {detail['msg'].removeprefix('Value error, ')}"
    if kind == "extra_forbidden":
        known = ", ".join(sorted(_fields_at(path[:-1]))) or "none"
        return f"{name}: is not a known setting; known here: {known}"
    if kind == "string_unicode":
        return f"{name}: contains half of a character; remove it"
    description = _description(path)
    if kind == "missing":
        return f"{name}: is missing; write {description}"
    if kind == "model_type":
        below = "settings below it" if path else "settings, one per line"
        return f"{name}: is {_shown(detail['input'])}; write {below}: {', '.join(_fields_at(path))}"
    return f"{name}: {_fault(kind, detail['input'], detail.get('ctx', {}))}; write {description}"


def _description(path: SettingPath) -> str:
    for length in range(len(path), 0, -1):
        field = _fields_at(path[: length - 1]).get(str(path[length - 1]))
        if field is not None and field.description:
            return field.description
    return "a section with the settings of another pack's task.yaml"


def _fields_at(path: SettingPath) -> dict[str, FieldInfo]:
    """Return the settings that are allowed at a path."""
    here: type[BaseModel] | None = TaskSpec
    for step in path:
        if isinstance(step, int):
            continue
        field = here.model_fields.get(step) if here else None
        here = _section(field.annotation) if field else None
    return dict(here.model_fields) if here else {}


def _section(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _fault(kind: str, value: Any, limits: Mapping[str, Any]) -> str:
    """Say what is wrong with a value; `kind` and `limits` are pydantic's."""
    if _is_empty(value):
        return "is empty"
    if kind in WHOLE_NUMBER:
        return f"is {_shown(value)} and must be a whole number"
    if kind in NUMBER:
        return f"is {_shown(value)} and must be a number"
    if kind in TRUTH:
        return f"is {_shown(value)}"
    if kind == "string_type":
        return f"is {_shown(value)} and must be text{'' if isinstance(value, list | dict) else ' (in quotes)'}"
    if kind == "tuple_type":
        return f"is {_shown(value)} and must be a list"
    return _limit_fault(kind, value, limits) or f"is {_shown(value)}, which is invalid"


def _limit_fault(kind: str, value: Any, limits: Mapping[str, Any]) -> str:
    """Say what is wrong with a value of the right type that is too large, too small or not one of the known ones."""
    if kind == "string_pattern_mismatch":
        rule = next((words for start, words in PATTERNS.items() if limits["pattern"].startswith(start)), "")
        return f"is {_shown(value)} and must be {rule}" if rule else ""
    if kind == "string_too_long":
        return f"has {count(len(value), 'character')}, at most {limits['max_length']:,} are allowed"
    if kind in ("too_short", "too_long"):
        limit = f"at least {limits['min_length']:,}" if kind == "too_short" else f"at most {limits['max_length']:,}"
        return f"has {count(len(value), 'entry', 'entries')}, {limit} are allowed"
    for name, words in (("ge", "at least"), ("le", "at most"), ("gt", "more than"), ("lt", "less than")):
        if name in limits:
            limit = limits[name]
            return f"is {_shown(value)} and must be {words} {int(limit) if limit == int(limit) else limit:,}"
    return f"is {_shown(value)}" if kind == "literal_error" else ""


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | Mapping) and not value)


def _shown(value: Any) -> str:
    """Return a value as its author wrote it."""
    if _is_empty(value):
        return "empty"
    if isinstance(value, str):
        return f"`{value[:MAX_SHOWN_CHARS]}{'…' if len(value) > MAX_SHOWN_CHARS else ''}`"
    if isinstance(value, Mapping):
        return "a group of settings"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bytes):
        return "binary data"
    if isinstance(value, date):
        return f"the date {value}"
    return shown_json(value)
