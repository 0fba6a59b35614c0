"""What a pack's projects are in Label Studio: their titles, instructions and settings."""

from collections.abc import Sequence
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from templates import Pack
from templates.payloads import Json
from templates.samples import Template, template_xml

LIST_PARTS = [f"{part}_{end}" for part in ("bullet_list", "ordered_list", "list_item") for end in ("open", "close")]
FOR_CHECKERS, FOR_WRITERS = "when you check", "what you do"
_PURPOSE = {"create": "write", "validate": "check"}


def project_title(pack: Pack, template: Template) -> str:
    """The title by which a pack's project is found again; Label Studio allows 50 characters."""
    return f"{pack.spec.name}: {_PURPOSE[template]}"


def instructions_html(markdown: str, template: Template, *, lists: bool = True) -> str:
    """Instructions as HTML for a place that keeps line breaks; without `lists`, their items are lines with a marker.

    Whoever checks reads first what is for them: the section *When you check …* comes before *What you do*, or before
    everything where there is no such section.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(_for_checkers(reader, markdown) if template == "validate" else markdown)
    if not lists:
        _write_markers(tokens)
    html: str = reader.renderer.render(tokens, reader.options, {})
    return html.replace(">\n<", "><").strip()


def _write_markers(tokens: Sequence[Token]) -> None:
    marker = ""
    for token in tokens:
        if token.type in LIST_PARTS:
            token.tag = "div"
            token.attrs.pop("start", None)
        if token.type == "list_item_open":
            marker = f"{token.info}. " if token.info else "• "
        elif token.type == "inline" and marker and token.children is not None:
            token.children.insert(0, Token("text", "", 0, content=marker))
            marker = ""


def _for_checkers(reader: MarkdownIt, markdown: str) -> str:
    lines, tokens = markdown.splitlines(keepends=True), reader.parse(markdown)
    heads = [
        (token.map[0], token.tag, text.content.strip().lower())
        for token, text in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]
    ours = next((head for head in heads if head[2].startswith(FOR_CHECKERS)), None)
    if ours is None:
        return markdown
    first, tag, _ = ours
    # An h2 ends where the next h2 or h1 begins.
    last = next((line for line, other, _ in heads if line > first and other <= tag), len(lines))
    before = next((line for line, _, text in heads if text.startswith(FOR_WRITERS)), 0)
    if before >= first:
        return markdown
    moved = "".join(lines[first:last]).rstrip() + "\n\n"
    return "".join([*lines[:before], moved, *lines[before:first], *lines[last:]])


def project_settings(pack: Pack, template: Template) -> Json:
    """What a pack's project is set to in Label Studio."""
    return {
        "title": project_title(pack, template),
        "description": pack.spec.description,
        "label_config": template_xml(pack, template),
        # Label Studio draws no markers of lists, and takes away whatever could bring them back.
        "expert_instruction": instructions_html(pack.instructions, template, lists=False),
        "show_instruction": True,
        "enable_empty_annotation": False,
        # People who write or check must not see what a model said beforehand.
        "show_collab_predictions": False,
        "maximum_annotations": 1,
    }
