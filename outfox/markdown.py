"""Markdown and YAML that show text from elsewhere as text: it cannot become a link, HTML, a heading or another key."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from outfox.arguments import one_line

MAX_CHARACTERS = 2_000
_ANYWHERE = re.compile(r"[\\`*_\[\]<>|~&#$!{}]")
# `https:` and `www.` would become links; a sentence's own full stops and colons stay readable.
_WITHIN = re.compile(r"\.(?=[^\W\d])|:(?=\S)|@")
_AT_START = re.compile(r"^(\d*)([-+=.)])")
_PLAIN = re.compile(r"[\w .:/<>()\[\]-]+")


def escaped(text: str) -> str:
    """Return text on one line, with everything escaped that Markdown would interpret."""
    line = _ANYWHERE.sub(r"\\\g<0>", one_line(text, MAX_CHARACTERS))
    return _AT_START.sub(r"\1\\\2", _WITHIN.sub(r"\\\g<0>", line))


def code(text: str) -> str:
    """Return text as code if it is plain; otherwise escaped."""
    return f"`{text}`" if _PLAIN.fullmatch(text) else escaped(text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    lines = (f"| {' | '.join(row)} |\n" for row in (columns, *rows))
    head = next(lines)
    return "".join([head, f"|{'---|' * len(columns)}\n", *lines])


def front_matter(values: Mapping[str, Any]) -> str:
    """Return a YAML block at the start of a page. Every value is written as JSON, which is YAML too."""
    lines = (f"{name}: {json.dumps(_printable(value), ensure_ascii=False)}\n" for name, value in values.items())
    return f"---\n{''.join(lines)}---\n"


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        return {one_line(str(name)): _printable(item) for name, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list | tuple) else value
