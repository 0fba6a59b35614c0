"""Both templates of a pack under Label Studio's own rules, and under those that it lets pass."""

from collections.abc import Iterator
from typing import Any

from plugin.labelstudio.errors import INSTALL, LabelStudioError
from plugin.labelstudio.render import render
from templates import Pack, Problem
from templates.markup import check_markup
from templates.samples import (
    TEMPLATES,
    Template,
    sample_annotation,
    sample_flag,
    sample_prediction,
    sample_task,
    template_xml,
)

__all__ = ["check_templates", "render"]


def check_templates(pack: Pack) -> list[Problem]:
    """What is wrong with create.xml and validate.xml; none means that Label Studio takes them and our samples."""
    problems = check_markup(pack)
    if problems:
        # Label Studio's own messages name no line; they are asked for only when ours are exhausted.
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
    """Label Studio's class for templates, and what it raises for one that it refuses."""
    # Imported here: the SDK is optional and takes a second.
    try:
        from label_studio_sdk._legacy import exceptions
        from label_studio_sdk.label_interface.interface import LabelInterface
    except ImportError as error:
        raise LabelStudioError(f"the Label Studio SDK is not installed; run: {INSTALL}") from error
    return LabelInterface, (
        exceptions.LSConfigParseException,
        exceptions.LabelStudioValidationErrorSentryIgnored,
        exceptions.LabelStudioXMLSyntaxErrorSentryIgnored,
    )
