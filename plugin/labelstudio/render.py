"""Renders a template as plain text, filled in with a sample task, for a terminal."""

import re
import textwrap
from collections.abc import Iterator, Mapping

from templates import Pack
from templates.label_config import OBJECT_TAGS, Element, read_elements
from templates.payloads import Template, sample_task, template_xml

WIDTH = 88


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
