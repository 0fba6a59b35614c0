"""Tasks, annotations and predictions in Label Studio's format, built from a spec and a template.

The samples come from a pack's own seed and contexts, to test its templates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from common.messages import filled
from templates.contract import ANSWER_LABEL, judged_fields
from templates.label_config import Element, read_elements
from templates.pack import Pack
from templates.rows import Context, SeedRow
from templates.spec import TaskField, TaskSpec

Json = dict[str, Any]
Template = Literal["create", "validate"]
TEMPLATES: tuple[Template, ...] = ("create", "validate")

# What is written to an author's task about its submission: columns of Label Studio's data manager. A field of the task
# with such a name is shown instead.
OUTCOME_KEYS = ("status", "reason", "sentence", "verdict", "votes")

_CONFIDENCE = 0.87


@dataclass(frozen=True)
class Span:
    """A part of a passage: `passage[start:start + len(text)] == text`."""

    start: int
    text: str


def creation_task(spec: TaskSpec, context: Context, target: str | None) -> Json:
    """Return a task for an author. `target` is the label to write for, or None if the annotator chooses."""
    data = {**outcome_values(spec, {}), **context.fields}
    if target is not None:
        data |= {"target": target, "target_title": spec.label_title(target)}
    return {"data": data, "meta": {"context": context.id}}


def outcome_values(spec: TaskSpec, known: Mapping[str, str]) -> dict[str, str]:
    """Return the outcome of a submission as values of its task; what is not known is empty."""
    own = {field.name for field in spec.fields}
    return {key: known.get(key, "") for key in OUTCOME_KEYS if key not in own}


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


def template_xml(pack: Pack, template: Template, language: str = "") -> str:
    """Return one of the pack's two templates, in a language if the pack has it."""
    return pack.text(f"{template}.xml", language)


def sample_task(pack: Pack, template: Template) -> Json:
    """Return a task in Label Studio's import format."""
    row, context = _row(pack), _context(pack)
    if template == "validate":
        return validation_task(pack.spec, {**context.fields, **row.fields})
    return creation_task(pack.spec, context, row.label if pack.spec.target.set_by == "task" else None)


def sample_annotation(pack: Pack, template: Template) -> Json:
    """Return an annotation with every field filled in."""
    row = _row(pack)
    values: dict[str, str | Span] = {}
    if template == "create":
        for field in pack.spec.fields:
            if field.role != "context":
                values[field.name] = _filled_in(field, row)
        values["feedback"] = _verdict(pack, row)
    else:
        values["comment"] = "A sample comment."
    values |= _answer(pack, row)
    return {"result": results(_elements(pack, template), values)}


def sample_flag(pack: Pack) -> Json:
    """Return the annotation of a validator who flags the example."""
    values = {"flag": pack.spec.validation.flag_reasons[0], "comment": "A sample comment."}
    return {"result": results(_elements(pack, "validate"), values)}


def sample_prediction(pack: Pack, template: Template) -> Json:
    """Return the model's prediction: a message for authors; for validators the answer, which they never see."""
    row = _row(pack)
    values: dict[str, str | Span] = {"feedback": _verdict(pack, row)} if template == "create" else _answer(pack, row)
    result = results(_elements(pack, template), values)
    return {"model_version": f"{pack.spec.name}-sample", "score": _CONFIDENCE, "result": result}


def _row(pack: Pack) -> SeedRow:
    """Return the first seed row whose label the first context allows."""
    targets = pack.contexts[0].targets
    return next((row for row in pack.seed if row.label in targets), pack.seed[0])


def _context(pack: Pack) -> Context:
    """Return the first context, with the seed row's texts for the fields that the row has."""
    first, own = pack.contexts[0], _row(pack).fields
    return replace(first, fields={name: own.get(name, text) for name, text in first.fields.items()})


def _elements(pack: Pack, template: Template) -> list[Element]:
    return read_elements(template_xml(pack, template), f"{template}.xml")


def _filled_in(field: TaskField, row: SeedRow) -> str | Span:
    if field.role == "input":
        return row.fields.get(field.name, "A sample text.")
    if field.role == "span":
        return Span(row.answer_start or 0, row.answer or "")
    known = row.extra.get(field.name)
    if field.choices:
        return known if known in field.choices else field.choices[0]
    return known if isinstance(known, str) and known else "A sample text."


def _answer(pack: Pack, row: SeedRow) -> dict[str, str | Span]:
    if row.label is not None:
        return {"label": row.label}
    return {field.name: _filled_in(field, row) for field in pack.spec.with_role("span")}


def _verdict(pack: Pack, row: SeedRow) -> str:
    """Return the pack's message for a fooled model that predicted another label, or the passage's first words."""
    spec = pack.spec
    if row.label is not None:
        wrong = next(name for name in spec.label_names if name != row.label)
        prediction, target = spec.label_title(wrong), spec.label_title(row.label)
    else:
        prediction, target = " ".join(row.fields[spec.model_input[1]].split()[:3]), row.answer or ""
    return filled(
        spec.messages.fooled, {"prediction": prediction, "confidence": f"{_CONFIDENCE:.0%}", "target": target}
    )
