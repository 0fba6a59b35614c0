"""Model cards as HTML: text of strangers, so without HTML of its own, images, or links that pass on where one was."""

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

# The page has its own first headings.
LOWER = 2
LAST_HEADING = 6
_HEADING = re.compile(r"h([1-6])")
# Settings of the model hub, before the text.
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def card_html(text: str) -> str:
    """Return a model card as HTML."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = reader.parse(_FRONT_MATTER.sub("", text.replace("\r\n", "\n")))
    for token in tokens:
        _change(token)
    html: str = reader.renderer.render(tokens, reader.options, {})
    return html


def _change(token: Token) -> None:
    heading = _HEADING.fullmatch(token.tag)
    if heading:
        token.tag = f"h{min(LAST_HEADING, int(heading[1]) + LOWER)}"
    if token.type == "link_open":
        token.attrs["rel"] = "nofollow noopener noreferrer"
    for child in token.children or ():
        _change(child)
