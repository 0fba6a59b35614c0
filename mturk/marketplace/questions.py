"""MTurk's XML: the ExternalQuestion of a HIT, and the QuestionFormAnswers of an assignment."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.parsers import expat

from mturk.marketplace.errors import InvalidParameter, InvalidQuestion
from mturk.marketplace.urls import PORTS, HostPort, InvalidHost, parse_host

MAX_QUESTION_BYTES = 65_535
NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
ROOT = f"{NAMESPACE} ExternalQuestion"
FIELDS = ("ExternalURL", "FrameHeight")
MAX_FRAME_HEIGHT = 100_000
DIGITS = 10
ENCODINGS = ("utf-8", "us-ascii")
ANSWERS_NAMESPACE = (
    "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"
)
# Characters that XML 1.0 does not allow and that PostgreSQL cannot store.
INVALID_XML_CHARACTERS = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class QuestionPage:
    """The URL of a page and the height of its frame; with 0 it is as high as the window allows."""

    url: str
    frame_height: int


def external_page(question: str, own_url: str) -> QuestionPage:
    """Return the page of an ExternalQuestion; refuse other questions, and pages on the marketplace's own host."""
    if len(question.encode()) > MAX_QUESTION_BYTES:
        raise InvalidParameter(f"Question: {len(question.encode())} bytes, at most {MAX_QUESTION_BYTES} are allowed")
    fields = _fields(question)
    url = fields.get("ExternalURL", "").strip()
    _check_url(url, own_url)
    height = fields.get("FrameHeight", "0").strip()
    if not height.isascii() or not height.isdigit() or len(height) > DIGITS or int(height) > MAX_FRAME_HEIGHT:
        raise InvalidParameter(f"Question: FrameHeight has to be a whole number of pixels up to {MAX_FRAME_HEIGHT}")
    return QuestionPage(url, int(height))


def _check_url(url: str, own_url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidParameter("Question: ExternalURL is not a valid URL") from None
    if parts.scheme not in PORTS or not parts.hostname or parts.username is not None or not url.isprintable():
        raise InvalidParameter("Question: ExternalURL has to start with https:// or http://")
    try:
        host = parse_host(url)
    except InvalidHost:
        raise InvalidParameter(
            "Question: the host of ExternalURL is invalid; use a host name (xn--… if it is not ASCII), "
            "or four decimal numbers"
        ) from None
    if _is_own_host(host, parse_host(own_url)):
        raise InvalidParameter(
            "Question: ExternalURL must not be on the marketplace's own host; serve the page under another host name"
        )


def _is_own_host(host: HostPort, own: HostPort) -> bool:
    if own.is_loopback:
        # For development, other ports of this machine are allowed.
        return host.is_loopback and host.port == own.port
    # On any port: browsers send cookies to all of them, so the page would receive the worker's login.
    return host.host == own.host


def _fields(question: str) -> dict[str, str]:
    """Return the text of each element below the root."""
    reader = _QuestionParser()
    try:
        reader.parser.Parse(question.encode(), True)
    except expat.ExpatError as error:
        raise InvalidQuestion(f"not well-formed XML ({error})") from None
    if "ExternalURL" not in reader.fields:
        raise InvalidQuestion("ExternalURL is missing")
    return reader.fields


class _QuestionParser:
    """Accepts two levels of elements only: no DTD, so no entities, and nothing is fetched."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self._path: list[str] = []
        # The text was decoded already and is encoded as UTF-8 here; the declared encoding is only compared.
        self.parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.parser.XmlDeclHandler = self._check_encoding
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _check_encoding(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if (encoding or "utf-8").lower() not in ENCODINGS:
            raise InvalidQuestion("the encoding has to be UTF-8")

    def _refuse_doctype(self, *_: object) -> None:
        raise InvalidQuestion("a document type is not allowed")

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name.removeprefix(f"{NAMESPACE} "))
        if len(self._path) == 1 and name != ROOT:
            raise InvalidParameter(
                "Question: only ExternalQuestion of 2006-07-14 is supported here; serve the page on your own server"
            )
        if len(self._path) == 1:
            return
        field = self._path[-1]
        if len(self._path) > 2 or field not in FIELDS or field in self.fields:
            raise InvalidQuestion(f"{field[:40]} is not expected there")
        self.fields[field] = ""

    def _end(self, _name: str) -> None:
        self._path.pop()

    def _text(self, data: str) -> None:
        if len(self._path) == 2:
            self.fields[self._path[1]] += data


def answers_xml(answers: Mapping[str, str]) -> str:
    """Return answers as QuestionFormAnswers, in the order of the form."""
    parts = [f'<?xml version="1.0" encoding="UTF-8"?>\n<QuestionFormAnswers xmlns="{ANSWERS_NAMESPACE}">']
    for name, value in answers.items():
        parts.append(
            f"<Answer><QuestionIdentifier>{_escape(name)}</QuestionIdentifier><FreeText>{_escape(value)}</FreeText></Answer>"
        )
    parts.append("</QuestionFormAnswers>")
    return "".join(parts)


def _escape(value: str) -> str:
    # An unescaped carriage return would be read back as a line feed.
    return html.escape(INVALID_XML_CHARACTERS.sub("", value), quote=False).replace("\r", "&#13;")
