"""The lists of a template that come from task.yaml, so that labels, hints, reasons and choices are written only once.

A `<Choices>` without a `<Choice>` gets its choices when the template is rendered:

    label                       the labels, each with its title and its hint
    flag                        validation.flag_reasons
    an extra field's name       the field's choices

A `<Markdown>` whose value has `{label}` is repeated for each label; `{label}` becomes its title, and `{hint}` its hint.

Everything is written on the first line of the tag, so that problems keep the line numbers of the file.
"""

import html
import re
from collections.abc import Iterator, Mapping

from common.messages import in_language
from templates.errors import PackError
from templates.label_config import Element, read_elements
from templates.spec import Label, TaskSpec

LABEL, HINT = "{label}", "{hint}"
# What separates a title from a hint; it is left out with the hint.
_SEPARATOR = " :;,.-"
_SELF_CLOSING = re.compile(rb"""<[^\s/>]+(?:[^"'>/]|"[^"]*"|'[^']*')*/>""")
_CLOSING = re.compile(rb"</[^>]*>")


def fill_lists(xml: str, spec: TaskSpec, language: str = "") -> str:
    """Return the template with its lists filled in, in a language; one that cannot be read is returned unchanged."""
    try:
        elements = read_elements(xml, "")
    except PackError:
        return xml
    labels = [
        Label(name=one.name, title=in_language(one.title, language), hint=in_language(one.hint, language))
        for one in spec.labels
    ]
    source = xml.encode()
    for element in reversed(elements):
        written = _filled(element, elements, spec, labels)
        if written is not None:
            first, last = _extent(element, source)
            lines = b"\n" * source.count(b"\n", first, last)
            source = source[:first] + written.encode() + lines + source[last:]
    return source.decode()


def _filled(element: Element, elements: list[Element], spec: TaskSpec, labels: list[Label]) -> str | None:
    """Return what replaces the element, or None if it stays as it is."""
    if element.tag == "Markdown" and LABEL in element.attributes.get("value", ""):
        return "".join(_start(element, {"value": text}, closed=True) for text in _hints(element, labels))
    if element.tag == "Choices" and not any(one.inside("Choices") is element for one in elements):
        choices = "".join(_choices(element.name or "", spec, labels))
        return f"{_start(element, {}, closed=False)}{choices}</{element.tag}>" if choices else None
    return None


def _hints(element: Element, labels: list[Label]) -> Iterator[str]:
    value = element.attributes["value"]
    for label in labels:
        text = value if label.hint else value.split(HINT)[0].rstrip(_SEPARATOR)
        yield text.replace(LABEL, label.title).replace(HINT, label.hint)


def _choices(name: str, spec: TaskSpec, labels: list[Label]) -> Iterator[str]:
    if name == "label":
        for label in labels:
            yield _tag("Choice", {"alias": label.name, "value": label.title} | _html(label))
    elif name == "flag":
        for reason in spec.validation.flag_reasons:
            yield _tag("Choice", {"value": reason})
    else:
        field = next((one for one in spec.fields if one.name == name), None)
        for choice in field.choices if field else ():
            yield _tag("Choice", {"alias": choice, "value": choice.replace("_", " ").capitalize()})


def _html(label: Label) -> dict[str, str]:
    return {"html": f"<b>{html.escape(label.title)}</b> {html.escape(label.hint)}"} if label.hint else {}


def _start(element: Element, changes: Mapping[str, str], *, closed: bool) -> str:
    return _tag(element.tag, {**element.attributes, **changes}, closed=closed)


def _tag(name: str, attributes: Mapping[str, str], *, closed: bool = True) -> str:
    written = "".join(f' {key}="{_escaped(value)}"' for key, value in attributes.items())
    return f"<{name}{written}{'/' if closed else ''}>"


def _escaped(value: str) -> str:
    return html.escape(value).replace("\n", "&#10;").replace("\t", "&#9;")


def _extent(element: Element, source: bytes) -> tuple[int, int]:
    """Return where the element begins and ends in the source."""
    # The parser reports the same place for the beginning and the end of a tag that closes itself.
    pattern = _SELF_CLOSING if element.end == element.start else _CLOSING
    found = pattern.match(source, element.end)
    return element.start, found.end() if found else element.end
