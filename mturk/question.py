"""MTurk's two documents: the question that shows a page of ours in a frame, and the answers that come back from it."""

from urllib.parse import urlsplit
from xml.parsers import expat
from xml.sax.saxutils import escape

from mturk.errors import CrowdRefused, CrowdUnavailable

QUESTION_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
LARGEST_QUESTION = 65_535
# A field that was sent several times, as boxes that can be ticked are, is one answer with these between its values.
BETWEEN = "|"
VALUES = ("FreeText", "SelectionIdentifier", "OtherSelectionText", "UploadedFileKey")


def external_question(page_url: str, frame_height: int = 0) -> str:
    """The question whose page the worker sees; height 0 is as high as the window."""
    parts = urlsplit(page_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CrowdRefused("the page of a HIT is no http(s) address; set the address under which workers reach us")
    if frame_height < 0:
        raise CrowdRefused(f"a frame of {frame_height} pixels is impossible; give 0 for the window's own height")
    question = (
        f'<ExternalQuestion xmlns="{QUESTION_SCHEMA}"><ExternalURL>{escape(page_url)}</ExternalURL>'
        f"<FrameHeight>{frame_height}</FrameHeight></ExternalQuestion>"
    )
    size = len(question.encode())
    if size > LARGEST_QUESTION:
        raise CrowdRefused(f"the question has {size:,} bytes, {LARGEST_QUESTION:,} is the most; shorten the address")
    return question


def read_answers(xml: str) -> dict[str, str]:
    """What the worker's form sent, by the names of its fields."""
    if not xml:
        return {}
    reader = _Answers()
    try:
        reader.parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise CrowdUnavailable(
            "the marketplace sent answers that are no XML; ask again, then tell its owner"
        ) from error
    return {name: BETWEEN.join(values) for name, values in reader.found.items()}


class _Answers:
    """Collects the values below each Answer as the parser meets them."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        # Without a DTD there are no entities to expand, so neither bombs nor files of this machine can be reached.
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
        raise CrowdUnavailable("the marketplace sent answers with a DTD, which no marketplace needs; tell its owner")
