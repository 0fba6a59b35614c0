"""What a task's projects in Label Studio contain: titles, instructions, settings and webhooks."""

import hashlib
import hmac
from collections.abc import Sequence
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from round_manager.labelstudio.port import Webhook
from templates import Pack
from templates.payloads import Json, Template, template_xml

LIST_PARTS = [f"{part}_{end}" for part in ("bullet_list", "ordered_list", "list_item") for end in ("open", "close")]
FOR_CHECKERS, FOR_WRITERS = "when you check", "what you do"
WEBHOOK_HEADER = "X-Outfox-Secret"
WEBHOOK_ACTIONS = frozenset({"ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED"})
_PURPOSE = {"create": "write", "validate": "check"}
_WEBHOOK_KEY = "outfox.webhook.1"


def project_title(pack: Pack, template: Template) -> str:
    """Return the title by which a pack's project is found again; Label Studio allows 50 characters."""
    return f"{pack.spec.name}: {_PURPOSE[template]}"


def instructions_html(markdown: str, template: Template, *, lists: bool = True) -> str:
    """Return instructions as HTML; without `lists`, list items are lines that begin with a marker.

    For validators, the section *When you check …* comes first: before *What you do*, or before everything if there is
    no such section.
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
    """Return the settings of a pack's project in Label Studio."""
    return {
        "title": project_title(pack, template),
        "description": pack.spec.description,
        "label_config": template_xml(pack, template),
        # Label Studio shows lists without markers, and strips the styles that would show them.
        "expert_instruction": instructions_html(pack.instructions, template, lists=False),
        "show_instruction": True,
        "enable_empty_annotation": False,
        # Writers and validators must not see predictions beforehand.
        "show_collab_predictions": False,
        "maximum_annotations": 1,
    }


def webhook_secret(secrets: Sequence[str], task: str) -> str:
    """Return the secret that Label Studio sends with a task's webhooks, derived from the current signing secret."""
    return _derived(secrets[-1], task)


def is_webhook_secret(secrets: Sequence[str], task: str, given: str) -> bool:
    """Whether a webhook carries the task's secret, derived from the current signing secret or an older one."""
    wanted = [_derived(secret, task).encode() for secret in secrets]
    return any(hmac.compare_digest(one, given.encode("utf-8", "replace")) for one in wanted)


def webhook_for(web_url: str, task: str, secrets: Sequence[str]) -> Webhook:
    """Return the webhook of both projects of a task; without payload, which contains tokens and what people typed."""
    url = f"{web_url.rstrip('/')}/webhooks/label-studio/{task}"
    return Webhook(url, {WEBHOOK_HEADER: webhook_secret(secrets, task)}, WEBHOOK_ACTIONS)


def _derived(secret: str, task: str) -> str:
    return hmac.new(secret.encode(), f"{_WEBHOOK_KEY}:{task}".encode(), hashlib.sha256).hexdigest()
