"""What a pack's projects are in Label Studio: their titles, instructions and settings."""

from itertools import pairwise

from markdown_it import MarkdownIt

from templates import Pack
from templates.payloads import Json
from templates.samples import Template, template_xml

FOR_CHECKERS, FOR_WRITERS = "when you check", "what you do"
_PURPOSE = {"create": "write", "validate": "check"}


def project_title(pack: Pack, template: Template) -> str:
    """The title by which a pack's project is found again; Label Studio allows 50 characters."""
    return f"{pack.spec.name}: {_PURPOSE[template]}"


def instructions_html(markdown: str, template: Template) -> str:
    """Instructions as Label Studio shows them: HTML, in a place that keeps line breaks.

    Whoever checks reads first what is for them: the section *When you check …* comes before *What you do*, or before
    everything where there is no such section.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    html: str = reader.render(_for_checkers(reader, markdown) if template == "validate" else markdown)
    return html.replace(">\n<", "><").strip()


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
        "expert_instruction": instructions_html(pack.instructions, template),
        "show_instruction": True,
        "enable_empty_annotation": False,
        # People who write or check must not see what a model said beforehand.
        "show_collab_predictions": False,
        "maximum_annotations": 1,
    }
