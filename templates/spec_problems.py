"""What a task.yaml that does not fit says to its author: the line, what is wrong there, and what to write."""

from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from templates.errors import Problem
from templates.part import Misfit
from templates.spec import TaskSpec
from templates.wrong_values import fault_of
from templates.yaml_lines import LinedYaml, Where


def problems_of(error: ValidationError, document: LinedYaml) -> list[Problem]:
    """One Problem for each thing that is wrong, in the order of the file."""
    found = []
    details = error.errors(include_url=False)
    for detail in details:
        loc = detail["loc"]
        # Entries that do not fit are not counted; what is wrong with them is told already.
        if detail["type"] == "too_short" and _has_wrong_entries(loc, details):
            continue
        places = [(*loc, *place) for place in _misfits(detail)] or [loc]
        written = next((place for place in places if document.has(place)), places[0])
        found.append(Problem("task.yaml", document.line_of(written), _sentence(detail, places[0])))
    return sorted(found, key=lambda problem: problem.line or 0)


def _has_wrong_entries(where: Where, details: list[ErrorDetails]) -> bool:
    return any(len(one["loc"]) > len(where) and one["loc"][: len(where)] == where for one in details)


def _misfits(detail: ErrorDetails) -> tuple[Where, ...]:
    cause = detail.get("ctx", {}).get("error")
    return cause.places if isinstance(cause, Misfit) else ()


def _sentence(detail: ErrorDetails, where: Where) -> str:
    kind = detail["type"]
    name = ".".join(str(step) for step in where) or "the file"
    if kind == "value_error":
        return f"{name}: {detail['msg'].removeprefix('Value error, ')}"
    if kind == "extra_forbidden":
        known = ", ".join(sorted(_fields_at(where[:-1]))) or "nothing else"
        return f"{name}: is not a known setting; known here: {known}"
    if kind == "string_unicode":
        return f"{name}: has half of a character in it, which nobody can read; remove it"
    cure = _description(where)
    if kind == "missing":
        return f"{name}: is missing; write {cure}"
    if kind == "model_type":
        found = fault_of(kind, detail["input"], {}).removesuffix(", which does not fit")
        below = "settings of its own below it" if where else "settings, one below the other"
        return f"{name}: {found}; write {below}: {', '.join(_fields_at(where))}"
    return f"{name}: {fault_of(kind, detail['input'], detail.get('ctx', {}))}; write {cure}"


def _description(where: Where) -> str:
    for length in range(len(where), 0, -1):
        last = where[length - 1]
        field = _fields_at(where[: length - 1]).get(str(last))
        if field is not None and field.description:
            return field.description
    return "a section with the settings of another pack's task.yaml"


def _fields_at(where: Where) -> dict[str, FieldInfo]:
    """The settings that are allowed at a place of the file."""
    here: type[BaseModel] | None = TaskSpec
    for step in where:
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
