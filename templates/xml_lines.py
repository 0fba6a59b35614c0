"""XML that remembers on which line each tag stands, and refuses what a labelling template never needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from templates.errors import PackError, Problem

MAX_CHARS = 200_000
MAX_DEPTH = 40


@dataclass
class Element:
    """One tag: its attributes, where it stands, what is around it and the text directly inside it."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    parent: "Element | None"
    text: str = ""

    @property
    def name(self) -> str | None:
        """The name that results and other tags refer to."""
        return self.attributes.get("name")

    @property
    def stored_value(self) -> str:
        """What a Choice or Label leaves in results: its alias, or else its value."""
        return self.attributes.get("alias") or self.attributes.get("value", "")

    def inside(self, *tags: str) -> "Element | None":
        """The nearest tag around this one that has one of these names."""
        around = self.parent
        while around is not None and around.tag not in tags:
            around = around.parent
        return around


def read_elements(xml: str, file: str) -> list[Element]:
    """Every tag in the order of the file, or a PackError with the line of the first mistake."""
    if len(xml) > MAX_CHARS:
        raise PackError([Problem(file, None, f"is longer than {MAX_CHARS:,} characters; shorten it")])
    reader = _Reader(file)
    reader.read(xml)
    return reader.elements


class _Reader:
    def __init__(self, file: str) -> None:
        self.elements: list[Element] = []
        self._file = file
        self._open: list[Element] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        # Without a DTD there are no entities to expand, so neither bombs nor files of the server can be reached.
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.ProcessingInstructionHandler = self._instruction
        self._parser.XmlDeclHandler = self._declaration

    def read(self, xml: str) -> None:
        try:
            self._parser.Parse(xml, True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            cure = "close every tag, quote every value, write &lt; for < and &amp; for &"
            raise PackError([Problem(self._file, error.lineno, f"is not valid XML: {what}; {cure}")]) from error
        except UnicodeEncodeError as error:
            raise self._refuse("has half of a character; save the file as UTF-8") from error

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise self._refuse(f"has tags inside each other more than {MAX_DEPTH} deep; flatten it")
        element = Element(tag, attributes, self._parser.CurrentLineNumber, self._open[-1] if self._open else None)
        self._open.append(element)
        self.elements.append(element)

    def _end(self, _tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].text += text

    def _doctype(self, *_: Any) -> None:
        raise self._refuse("has a DOCTYPE; remove it, templates need no entities")

    def _instruction(self, target: str, _data: str) -> None:
        raise self._refuse(f"has a processing instruction <?{target} …?>; remove it")

    def _declaration(self, *_: Any) -> None:
        # Label Studio reads templates as text, where a declared encoding is an error.
        raise self._refuse("begins with <?xml …?>; remove that line")

    def _refuse(self, text: str) -> PackError:
        return PackError([Problem(self._file, self._parser.CurrentLineNumber, text)])
