"""Pages in the pseudo-language `en-XA`: which of their texts were not translated.

Every translated text stands in brackets. What is not ours to translate is marked as such: texts of task packs are in an
element with their `lang`, names and what people wrote in one with `translate="no"`, dates in `<time>`.
"""

import re
from collections.abc import Iterable
from html.parser import HTMLParser

from common.pseudo import ACCENTED, END, START

ATTRIBUTES = ("alt", "aria-label", "aria-description", "placeholder", "title")
WITHOUT_TEXT = ("script", "style", "template", "time")
# The same in every language.
NAMES = ("Outfox Crowd", "Outfox", "UTC")
VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
_WORDS = re.compile(r"[A-Za-z]{2,}")


class _Reader(HTMLParser):
    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._names = sorted({*NAMES, *names}, key=len, reverse=True)
        self.found: list[str] = []
        self._depth = 0
        # Each open element, and whether its content is not ours.
        self._open: list[tuple[str, bool]] = [("", False)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_foreign = self._open[-1][1]
        if "lang" in given and tag != "html":
            is_foreign = given["lang"] != ACCENTED
        is_foreign = is_foreign or given.get("translate") == "no" or tag in WITHOUT_TEXT
        if not is_foreign:
            for name in ATTRIBUTES:
                self._check(_outside(given.get(name) or "")[0])
            if tag == "input" and given.get("type") in ("submit", "button"):
                self._check(_outside(given.get("value") or "")[0])
        if tag not in VOID:
            self._open.append((tag, is_foreign))

    def handle_endtag(self, tag: str) -> None:
        if any(name == tag for name, _ in self._open):
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._open[-1][1]:
            # A translated text may have tags inside.
            outside, self._depth = _outside(data, self._depth)
            self._check(outside)

    def _check(self, text: str) -> None:
        rest = text
        for name in self._names:
            rest = rest.replace(name, "")
        if _WORDS.search(rest):
            self.found.append(" ".join(text.split()))


def _outside(text: str, depth: int = 0) -> tuple[str, int]:
    """Return what stands outside of the brackets of translated texts, and how many are still open."""
    rest = ""
    for letter in text:
        depth += (letter == START) - (letter == END)
        if depth == 0 and letter != END:
            rest += letter
    return rest, depth


def untranslated(html: str, names: Iterable[str] = ()) -> list[str]:
    """Return the texts of a page that are not translated; `names` are texts of people in the page's title."""
    reader = _Reader(names)
    reader.feed(html)
    reader.close()
    return reader.found
