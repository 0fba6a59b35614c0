"""Sample tasks, annotations and predictions of a pack, made of its own seed and contexts, to try its templates with."""

from dataclasses import replace
from typing import Literal

from templates.pack import Pack
from templates.payloads import Json, Span, creation_task, results, validation_task
from templates.rows import Context, SeedRow
from templates.spec import TaskField
from templates.xml_lines import Element, read_elements

Template = Literal["create", "validate"]
TEMPLATES: tuple[Template, ...] = ("create", "validate")

_CONFIDENCE = 0.87


def template_xml(pack: Pack, template: Template) -> str:
    """The text of one of the pack's two templates."""
    return pack.create_xml if template == "create" else pack.validate_xml


def sample_task(pack: Pack, template: Template) -> Json:
    """A task in Label Studio's import form."""
    row, context = _row(pack), _context(pack)
    if template == "validate":
        return validation_task(pack.spec, {**context.fields, **row.fields})
    return creation_task(pack.spec, context, row.label if pack.spec.target.set_by == "task" else None)


def sample_annotation(pack: Pack, template: Template) -> Json:
    """What somebody submits who fills in everything."""
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
    """What somebody submits who flags the example instead of judging it."""
    values = {"flag": pack.spec.validation.flag_reasons[0], "comment": "A sample comment."}
    return {"result": results(_elements(pack, "validate"), values)}


def sample_prediction(pack: Pack, template: Template) -> Json:
    """What the model says: the verdict's sentence for writers; for checkers the bare answer, which they never see."""
    row = _row(pack)
    values: dict[str, str | Span] = {"feedback": _verdict(pack, row)} if template == "create" else _answer(pack, row)
    result = results(_elements(pack, template), values)
    return {"model_version": f"{pack.spec.name}-sample", "score": _CONFIDENCE, "result": result}


def _row(pack: Pack) -> SeedRow:
    """The first seed row with a label that the first context may ask for."""
    targets = pack.contexts[0].targets
    return next((row for row in pack.seed if row.label in targets), pack.seed[0])


def _context(pack: Pack) -> Context:
    """The first context, with the seed row's own texts where the row has them."""
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
    """The pack's sentence for a fooled model that took another label, or the passage's first words."""
    spec = pack.spec
    if row.label is not None:
        wrong = next(name for name in spec.label_names if name != row.label)
        prediction, target = spec.label_title(wrong), spec.label_title(row.label)
    else:
        prediction, target = " ".join(row.fields[spec.model_input[1]].split()[:3]), row.answer or ""
    return spec.messages.fooled.format(prediction=prediction, confidence=f"{_CONFIDENCE:.0%}", target=target)
