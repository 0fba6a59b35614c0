"""MTurk's two XML documents: the question that shows our page in a frame, and a worker's answers."""

from urllib.parse import urlsplit
from xml.parsers import expat
from xml.sax.saxutils import escape

from crowd.errors import CrowdRefused, CrowdUnavailable

QUESTION_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
LARGEST_QUESTION = 65_535
# Separates the values of a field that was sent several times, such as a group of checkboxes.
VALUE_SEPARATOR = "|"
VALUES = ("FreeText", "SelectionIdentifier", "OtherSelectionText", "UploadedFileKey")


def external_question(page_url: str, frame_height: int = 0) -> str:
    """Return the question that shows a page to the worker; height 0 means the height of the window."""
    parts = urlsplit(page_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CrowdRefused("the page of a HIT needs an http(s) address that workers can reach")
    if frame_height < 0:
        raise CrowdRefused(f"a frame cannot be {frame_height} pixels high; use 0 for the height of the window")
    question = (
        f'<ExternalQuestion xmlns="{QUESTION_SCHEMA}"><ExternalURL>{escape(page_url)}</ExternalURL>'
        f"<FrameHeight>{frame_height}</FrameHeight></ExternalQuestion>"
    )
    size = len(question.encode())
    if size > LARGEST_QUESTION:
        raise CrowdRefused(f"the question has {size:,} bytes, more than {LARGEST_QUESTION:,}; shorten the address")
    return question


def read_answers(xml: str) -> dict[str, str]:
    """Return the values that the worker's form sent, by field name."""
    if not xml:
        return {}
    reader = _Answers()
    try:
        reader.parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise CrowdUnavailable("the marketplace sent answers that are not valid XML") from error
    return {name: VALUE_SEPARATOR.join(values) for name, values in reader.found.items()}


class _Answers:
    """Collects the values of each Answer element."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        # Without a DTD there are no entities to expand: no expansion bombs, and no access to local files.
        self.parser.StartDoctypeDeclHandler = self._doctype
        self._pieces: list[str] = []
        self._field = ""

    def _start(self, _tag: str, _attributes: dict[str, str]) -> None:
        self._pieces = []

    def _text(self, text: str) -> None:
        self._pieces.append(text)

    def _end(self, tag: str) -> None:
        name = tag.rpartition(" ")[2]
        text = "".join(self._pieces)
        if name == "QuestionIdentifier":
            self._field = text
            self.found.setdefault(text, [])
        elif name in VALUES and self._field:
            self.found[self._field].append(text)
        elif name == "Answer":
            self._field = ""
        self._pieces = []

    def _doctype(self, *_declared: object) -> None:
        raise CrowdUnavailable("the marketplace sent answers with a DTD, which is not allowed")
