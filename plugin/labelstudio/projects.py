"""What a pack's projects are in Label Studio: their titles, instructions and settings."""

from markdown_it import MarkdownIt

from templates import Pack
from templates.payloads import Json
from templates.samples import Template, template_xml

_PURPOSE = {"create": "write", "validate": "check"}


def project_title(pack: Pack, template: Template) -> str:
    """The title by which a pack's project is found again; Label Studio allows 50 characters."""
    return f"{pack.spec.name}: {_PURPOSE[template]}"


def instructions_html(markdown: str) -> str:
    """Instructions as Label Studio shows them: HTML, in a place that keeps line breaks."""
    html: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    return html.replace(">\n<", "><").strip()


def project_settings(pack: Pack, template: Template) -> Json:
    """What a pack's project is set to in Label Studio."""
    return {
        "title": project_title(pack, template),
        "description": pack.spec.description,
        "label_config": template_xml(pack, template),
        "expert_instruction": instructions_html(pack.instructions),
        "show_instruction": True,
        "enable_empty_annotation": False,
        # People who write or check must not see what a model said beforehand.
        "show_collab_predictions": False,
        "maximum_annotations": 1,
    }
