"""Checks a pack's templates by Label Studio's own rules, and by ours for what it lets pass."""

from collections.abc import Iterator
from typing import Any

from plugin.errors import LabelStudioNotInstalled
from templates import Pack, Problem
from templates.markup import check_markup
from templates.payloads import (
    TEMPLATES,
    Template,
    sample_annotation,
    sample_flag,
    sample_prediction,
    sample_task,
    template_xml,
)


def check_templates(pack: Pack) -> list[Problem]:
    """Return the problems of create.xml and validate.xml; none if Label Studio accepts them and our samples."""
    problems = check_markup(pack)
    if problems:
        # Label Studio's own messages name no line, so ours are shown first.
        return problems
    return [Problem(f"{name}.xml", None, text) for name in TEMPLATES for text in _refusals(pack, name)]


def _refusals(pack: Pack, template: Template) -> Iterator[str]:
    label_interface, refusals = _sdk()
    try:
        interface = label_interface(template_xml(pack, template))
        interface.validate()
    except refusals as error:
        yield f"Label Studio refuses the template: {error}"
        return
    if not interface.validate_task(sample_task(pack, template)):
        yield "Label Studio refuses a sample task; show only fields that task.yaml lists"
    annotations = [sample_annotation(pack, template), *([sample_flag(pack)] if template == "validate" else [])]
    for annotation in annotations:
        if not interface.validate_annotation(annotation):
            yield f"Label Studio refuses a sample annotation: {_reasons(interface, annotation)}"
    prediction = sample_prediction(pack, template)
    if not interface.validate_prediction(prediction):
        yield f"Label Studio refuses a sample prediction: {_reasons(interface, prediction)}"


def _reasons(interface: Any, payload: dict[str, Any]) -> str:
    # validate_annotation gives no reasons; validate_prediction applies the same rules and does.
    return "; ".join(interface.validate_prediction(payload, return_errors=True))


def _sdk() -> tuple[Any, tuple[type[Exception], ...]]:
    """Return Label Studio's class for templates, and the errors it raises for a template that it refuses."""
    # Imported here: the SDK is optional and takes a second.
    try:
        from label_studio_sdk._legacy import exceptions
        from label_studio_sdk.label_interface.interface import LabelInterface
    except ImportError as error:
        raise LabelStudioNotInstalled("the Label Studio SDK is not installed") from error
    return LabelInterface, (
        exceptions.LSConfigParseException,
        exceptions.LabelStudioValidationErrorSentryIgnored,
        exceptions.LabelStudioXMLSyntaxErrorSentryIgnored,
    )
