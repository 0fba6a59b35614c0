"""Tasks, annotations and predictions in Label Studio's format, built from a spec and a template."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from templates.contract import ANSWER_LABEL, judged_fields
from templates.label_config import Element
from templates.rows import Context
from templates.spec import TaskSpec

Json = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A part of a passage: `passage[start:start + len(text)] == text`."""

    start: int
    text: str


def creation_task(spec: TaskSpec, context: Context, target: str | None) -> Json:
    """Return a task for an author. `target` is the label to write for, or None if the annotator chooses."""
    data = dict(context.fields)
    if target is not None:
        data |= {"target": target, "target_title": spec.label_title(target)}
    return {"data": data, "meta": {"context": context.id}}


def next_target(spec: TaskSpec, context: Context, asked: dict[str, int]) -> str | None:
    """Return the least used of the labels that the context allows, and count it in `asked`.

    Return None if the annotator chooses.
    """
    if spec.target.set_by == "annotator":
        return None
    target = min(context.targets or spec.label_names, key=lambda name: asked.get(name, 0))
    asked[target] = asked.get(target, 0) + 1
    return target


def validation_task(spec: TaskSpec, fields: Mapping[str, str]) -> Json:
    """Return a task for a validator: what the model read, and nothing that reveals the target."""
    return {"data": {name: fields[name] for name in judged_fields(spec)}}


def results(elements: list[Element], values: Mapping[str, str | Span]) -> list[Json]:
    """Return one result for each control of the template that has a value, in the template's order."""
    found = []
    for element in elements:
        name, to_name = element.name, element.attributes.get("toName")
        if name is not None and name in values and to_name is not None:
            value = _value(element.tag, values[name])
            found.append({"from_name": name, "to_name": to_name, "type": element.tag.lower(), "value": value})
    return found


def _value(tag: str, value: str | Span) -> Json:
    if isinstance(value, Span):
        end = value.start + len(value.text)
        return {"start": value.start, "end": end, "text": value.text, "labels": [ANSWER_LABEL]}
    return {"choices": [value]} if tag == "Choices" else {"text": [value]}
