"""A pack's templates: checked by Label Studio's rules and ours, and shown as plain text with a sample task."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from plugin.errors import LabelStudioNotInstalled
from templates import Pack, Problem
from templates.label_config import OBJECT_TAGS, Element, read_elements
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

WIDTH = 88


def check_templates(pack: Pack) -> list[Problem]:
    """Return the problems of create.xml and validate.xml; none if Label Studio accepts them and our samples."""
    problems = check_markup(pack)
    if problems:
        # Label Studio's own messages name no line, so ours are shown first.
        return problems
    return [
        Problem(f"{name}.xml", None, "label_studio_refusal", text)
        for name in TEMPLATES
        for text in _refusals(pack, name)
    ]


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


def render(pack: Pack, template: Template) -> str:
    """Return what a worker sees, line by line: headings, texts, text boxes and choices."""
    data = sample_task(pack, template)["data"]
    blocks = []
    for element in read_elements(template_xml(pack, template), f"{template}.xml"):
        if not _needs_a_choice(element):
            blocks += list(_block(element, data))
    return "\n".join(blocks).strip("\n") + "\n"


def _block(element: Element, data: Mapping[str, str]) -> Iterator[str]:
    attributes = element.attributes
    if element.tag == "Header":
        title = _filled(attributes.get("value") or element.text, data)
        yield from ("", title, ("=" if attributes.get("size", "4") <= "3" else "-") * min(len(title), WIDTH))
    elif element.tag == "Markdown":
        yield _wrapped(_plain(_filled(attributes.get("value") or element.text, data)))
    elif element.tag in OBJECT_TAGS:
        yield _wrapped(_filled(attributes.get("value", ""), data), "  | ")
    elif element.tag == "TextArea":
        yield f"  [{attributes.get('placeholder', ''):<40}]  {_about(element)}"
    elif element.tag in ("Choices", "Labels"):
        yield f"  {_about(element)}"
    elif element.tag == "Choice":
        yield _wrapped(f"( ) {_plain(attributes.get('html') or attributes['value'])}", "    ")
    elif element.tag == "Label":
        yield f"    [{attributes['value']}] mark it in the text"


def _needs_a_choice(element: Element | None) -> bool:
    """Whether the element is in a part that is shown only after a choice."""
    while element is not None and element.attributes.get("visibleWhen") != "choice-selected":
        element = element.parent
    return element is not None


def _about(element: Element) -> str:
    notes = [element.name or ""]
    if element.attributes.get("required") == "true":
        notes.append("required")
    if element.attributes.get("smartOnly") == "true":
        notes.append("asks the model")
    if element.attributes.get("visibleWhen") == "choice-unselected":
        notes.append(f"unless {element.attributes.get('whenTagName')} is chosen")
    return f"({', '.join(notes)})"


def _filled(text: str, data: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda found: data.get(found[1], ""), text)


def _plain(text: str) -> str:
    """Remove HTML tags and Markdown's asterisks; a colon follows a bold beginning."""
    text = re.sub(r"</(?:b|strong)>(?=\s*\w)", ":", text)
    return re.sub(r"<[^>]+>|\*\*", "", text).strip()


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    " * (indent == "    "))
