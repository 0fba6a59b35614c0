"""Label Studio's labelling configurations: the tags that text templates use, and their elements with line numbers.

Label Studio itself accepts unknown tags and attributes, and its editor then shows nothing or fails. The tables describe
Label Studio 1.23. Left out on purpose: media tags, and everything that fetches from elsewhere (`apiUrl`, `resolver`,
`valueType="url"`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from xml.parsers import expat

from templates.errors import PackError, Problem

MAX_CHARS = 200_000
MAX_DEPTH = 40

_CONTROL = "name toName smart smartOnly"
_REQUIRED = "required requiredMessage"
_PER = "perRegion perItem displayMode"
_VISIBLE = "visibleWhen whenTagName whenLabelValue whenChoiceValue whenRole"
_RICH_TEXT = "name value valueType saveTextResult selectionEnabled highlightColor showLabels encoding granularity"
_LABELS = "choice maxUsages showInline opacity fillColor strokeColor strokeWidth fillOpacity allowEmpty value"

_TAGS = {
    "View": f"display style className idAttr {_VISIBLE}",
    "Style": "",
    "Header": "value size style underline",
    "Markdown": f"value style className idAttr {_VISIBLE}",
    "Collapse": "value size style accordion bordered open",
    "Panel": "value open",
    "Filter": "name toName placeholder minlength style hotkey casesensetive cleanup",
    "Text": _RICH_TEXT,
    "HyperText": f"{_RICH_TEXT} inline clickableLinks",
    "Paragraphs": "name value valueType saveTextResult layout nameKey textKey showLabels highlightColor contextScroll",
    "TextArea": f"{_CONTROL} {_REQUIRED} {_PER} {_VISIBLE} value label placeholder maxSubmissions editable "
    "transcription skipDuplicates rows showSubmitButton allowSubmit",
    "Choices": f"{_CONTROL} {_REQUIRED} {_PER} {_VISIBLE} choice showInline layout value allowNested",
    "Choice": "value alias selected style hotkey html hint color",
    "Taxonomy": f"{_CONTROL} {_REQUIRED} {_PER} {_VISIBLE} labeling leafsOnly showFullPath pathSeparator maxUsages "
    "maxWidth minWidth dropdownWidth placeholder legacy value",
    "Rating": f"{_CONTROL} {_REQUIRED} {_PER} maxRating defaultValue size icon hotkey",
    "Number": f"{_CONTROL} {_REQUIRED} {_PER} min max step defaultValue slider hotkey",
    "DateTime": f"{_CONTROL} {_REQUIRED} {_PER} only format min max defaultValue hotkey",
    "Labels": f"{_CONTROL} {_LABELS}",
    "HyperTextLabels": f"{_CONTROL} {_LABELS}",
    "ParagraphLabels": f"{_CONTROL} {_LABELS}",
    "Label": "value alias selected maxUsages hint hotkey showAlias aliasStyle size background selectedColor "
    "granularity html category",
    "Shortcut": "value alias hotkey background",
    "Relations": "choice",
    "Relation": "value background",
}
TAGS: Mapping[str, frozenset[str]] = MappingProxyType({tag: frozenset(names.split()) for tag, names in _TAGS.items()})

OBJECT_TAGS = frozenset({"Text", "HyperText", "Paragraphs"})
# Tags whose own text, between the opening and the closing tag, is shown or used.
TEXT_TAGS = frozenset({"Style", "Header", "Markdown", "HyperText"})
# The tags that must surround a tag for it to have an effect.
PARENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Choice": ("Choices", "Taxonomy"),
        "Label": ("Labels", "HyperTextLabels", "ParagraphLabels"),
        "Relation": ("Relations",),
        "Panel": ("Collapse",),
        "Shortcut": ("TextArea",),
    }
)

# The editor fails on any other value.
_TRUTH = (
    "required perRegion perItem smart smartOnly editable transcription skipDuplicates showSubmitButton allowSubmit "
    "showInline allowNested selected showAlias allowEmpty underline accordion bordered open cleanup casesensetive "
    "selectionEnabled showLabels inline clickableLinks contextScroll labeling leafsOnly showFullPath legacy slider"
)
TRUTH_VALUES = ("true", "false")
_VALUES = {
    **{f".{name}": TRUTH_VALUES for name in _TRUTH.split()},
    "Choices.choice": ("single", "single-radio", "multiple"),
    "Choices.layout": ("select", "inline", "vertical"),
    "Labels.choice": ("single", "multiple"),
    "Relations.choice": ("single", "multiple"),
    "Paragraphs.layout": ("none", "dialogue"),
    "Paragraphs.valueType": ("json",),
    ".valueType": ("text",),
    ".saveTextResult": ("none", "no", "yes"),
    ".encoding": ("none", "base64", "base64unicode"),
    ".granularity": ("symbol", "word", "sentence", "paragraph"),
    ".displayMode": ("tag", "region-list"),
    ".visibleWhen": ("region-selected", "no-region-selected", "choice-selected", "choice-unselected"),
}


def allowed_values(tag: str, attribute: str) -> tuple[str, ...] | None:
    """Return the values that an attribute accepts, or None if it accepts any text."""
    return _VALUES.get(f"{tag}.{attribute}", _VALUES.get(f".{attribute}"))


@dataclass
class Element:
    """One tag: its attributes, its line, the tag around it and the text directly inside it.

    `start` and `end` are the places of its opening and closing tags, in bytes.
    """

    tag: str
    attributes: Mapping[str, str]
    line: int
    parent: "Element | None"
    text: str = ""
    start: int = 0
    end: int = 0

    @property
    def name(self) -> str | None:
        """The name that results and other tags refer to, if it has one."""
        return self.attributes.get("name")

    @property
    def stored_value(self) -> str:
        """What a Choice or Label stores in results: its alias, or else its value."""
        return self.attributes.get("alias") or self.attributes.get("value", "")

    def inside(self, *tags: str) -> "Element | None":
        """Return the nearest surrounding tag with one of these names."""
        around = self.parent
        while around is not None and around.tag not in tags:
            around = around.parent
        return around


def read_elements(xml: str, file: str) -> list[Element]:
    """Return every tag in the order of the file; raise a PackError with the line of the first mistake."""
    if len(xml) > MAX_CHARS:
        raise PackError([Problem(file, None, "file_too_long", f"is longer than {MAX_CHARS:,} characters; shorten it")])
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
        # Without a DTD there are no entities, so none can expand without end or read the server's files.
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.ProcessingInstructionHandler = self._instruction
        self._parser.XmlDeclHandler = self._declaration

    def read(self, xml: str) -> None:
        try:
            self._parser.Parse(xml, True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            fix = "close every tag, quote every value, write &lt; for < and &amp; for &"
            raise PackError(
                [Problem(self._file, error.lineno, "xml_invalid", f"is not valid XML: {what}; {fix}")]
            ) from error
        except UnicodeEncodeError as error:
            raise self._refuse("file_not_utf8", "contains half of a character; save the file as UTF-8") from error

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise self._refuse("nested_too_deeply", f"nests tags more than {MAX_DEPTH} deep; flatten it")
        place, around = self._parser.CurrentByteIndex, self._open[-1] if self._open else None
        element = Element(tag, attributes, self._parser.CurrentLineNumber, around, start=place)
        self._open.append(element)
        self.elements.append(element)

    def _end(self, _tag: str) -> None:
        self._open.pop().end = self._parser.CurrentByteIndex

    def _text(self, text: str) -> None:
        self._open[-1].text += text

    def _doctype(self, *_: Any) -> None:
        raise self._refuse("xml_not_allowed", "has a DOCTYPE; remove it")

    def _instruction(self, target: str, _data: str) -> None:
        raise self._refuse("xml_not_allowed", f"has a processing instruction <?{target} …?>; remove it")

    def _declaration(self, *_: Any) -> None:
        # Label Studio parses templates as text, where a declared encoding is an error.
        raise self._refuse("xml_not_allowed", "begins with <?xml …?>; remove that line")

    def _refuse(self, code: str, text: str) -> PackError:
        return PackError([Problem(self._file, self._parser.CurrentLineNumber, code, text)])
