"""HTML as a simulated worker reads it: forms, links, frames, and the setup of our own pages."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from plugin.simulation.errors import SiteTrouble

SETUP = "setup"
Attributes = list[tuple[str, str | None]]


@dataclass
class Form:
    """A form: where it goes, what it sends, and what its button says."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    button: str = ""


class HtmlPage(HTMLParser):
    """One page, read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.frames: list[str] = []
        self.links: list[str] = []
        self._in_form = self._in_setup = False
        self._setup = ""
        self.feed(text)
        self.close()

    @property
    def setup(self) -> dict[str, Any]:
        """What our page is set up with."""
        try:
            found: dict[str, Any] = json.loads(self._setup)
        except ValueError as error:
            raise SiteTrouble("the frame shows no page of a HIT", retry=True) from error
        return found

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        """Notes what matters."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._in_form = True
            self.forms.append(Form(given.get("action", "")))
        elif tag == "iframe":
            self.frames.append(given.get("src", ""))
        elif tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "script" and given.get("id") == SETUP:
            self._in_setup = True
        elif self._in_form and tag == "input" and given.get("type") == "hidden":
            self.forms[-1].fields[given.get("name", "")] = given.get("value", "")
        elif self._in_form and tag == "button":
            self.forms[-1].button = given.get("aria-label", "")

    def handle_endtag(self, tag: str) -> None:
        """Notes where something ends."""
        if tag == "form":
            self._in_form = False
        elif tag == "script":
            self._in_setup = False

    def handle_data(self, data: str) -> None:
        """Keeps the setup."""
        if self._in_setup:
            self._setup += data
