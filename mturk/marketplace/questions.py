"""ExternalQuestion: the page of a requester that a HIT shows in a frame."""

from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.parsers import expat

from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.hosts import PORTS, NoHost, Place, place_of

LARGEST = 65_535
NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
ROOT = f"{NAMESPACE} ExternalQuestion"
FIELDS = ("ExternalURL", "FrameHeight")
TALLEST = 100_000
DIGITS = 10
ENCODINGS = ("utf-8", "us-ascii")


@dataclass(frozen=True)
class Page:
    """Where the page is, and how high its frame; 0 is as high as the window allows."""

    url: str
    frame_height: int


def external_page(question: str, own_url: str) -> Page:
    """The page of a question; refused are all other kinds, and pages on the marketplace's own host."""
    if len(question.encode()) > LARGEST:
        raise bad_parameter(f"Question: {len(question.encode())} bytes, at most {LARGEST} are allowed")
    fields = _fields(question)
    url = fields.get("ExternalURL", "").strip()
    _check_url(url, own_url)
    height = fields.get("FrameHeight", "0").strip()
    if not height.isascii() or not height.isdigit() or len(height) > DIGITS or int(height) > TALLEST:
        raise bad_parameter(f"Question: FrameHeight has to be a whole number of pixels up to {TALLEST}")
    return Page(url, int(height))


def _check_url(url: str, own_url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise bad_parameter("Question: ExternalURL cannot be read as a URL") from None
    if parts.scheme not in PORTS or not parts.hostname or parts.username is not None or not url.isprintable():
        raise bad_parameter("Question: ExternalURL has to be a URL that begins with https:// or http://")
    try:
        theirs = place_of(url)
    except NoHost:
        raise bad_parameter(
            "Question: the host of ExternalURL cannot be read; write a name, as xn--… where it is not ASCII, "
            "or four decimal numbers"
        ) from None
    if _is_ours(theirs, place_of(own_url)):
        raise bad_parameter(
            "Question: ExternalURL must not be on the marketplace's own address; serve the page under another host name"
        )


def _is_ours(theirs: Place, ours: Place) -> bool:
    if ours.is_loopback:
        # For development, where there is no other host; but never the marketplace itself.
        return theirs.is_loopback and theirs.port == ours.port
    # Whatever the port: browsers send cookies to all of them, and a page there would get the worker's login.
    return theirs.host == ours.host


def _fields(question: str) -> dict[str, str]:
    """The text of each element below the root."""
    reader = _Reader()
    try:
        reader.parser.Parse(question.encode(), True)
    except expat.ExpatError as error:
        raise MarketError("XMLParseError", f"Question: not well-formed XML ({error})") from None
    if "ExternalURL" not in reader.fields:
        raise MarketError("XMLParseError", "Question: ExternalURL is missing")
    return reader.fields


class _Reader:
    """Takes two levels of elements and nothing else: no DTD, so no entities, and nothing is fetched."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self._path: list[str] = []
        # What the document itself names is only compared: it is text already, and was bytes in UTF-8.
        self.parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.parser.XmlDeclHandler = self._check_encoding
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _check_encoding(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if (encoding or "utf-8").lower() not in ENCODINGS:
            raise MarketError("XMLParseError", "Question: the encoding has to be UTF-8")

    def _refuse_doctype(self, *_: object) -> None:
        raise MarketError("XMLParseError", "Question: a document type is not allowed")

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name.removeprefix(f"{NAMESPACE} "))
        if len(self._path) == 1 and name != ROOT:
            raise bad_parameter(
                "Question: only ExternalQuestion of 2006-07-14 is supported here; put your page on a server of your own"
            )
        if len(self._path) == 1:
            return
        field = self._path[-1]
        if len(self._path) > 2 or field not in FIELDS or field in self.fields:
            raise MarketError("XMLParseError", f"Question: {field[:40]} is not expected there")
        self.fields[field] = ""

    def _end(self, _name: str) -> None:
        self._path.pop()

    def _text(self, data: str) -> None:
        if len(self._path) == 2:
            self.fields[self._path[1]] += data
