"""A worker's answers as MTurk hands them to requesters: QuestionFormAnswers, in XML."""

import html
import re
from collections.abc import Mapping

NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"
# What XML 1.0 has no way to say, and one of the databases no way to hold.
UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def answers_xml(answers: Mapping[str, str]) -> str:
    """One Answer for each field, in the order of the form."""
    parts = [f'<?xml version="1.0" encoding="UTF-8"?>\n<QuestionFormAnswers xmlns="{NAMESPACE}">']
    for name, value in answers.items():
        parts.append(
            f"<Answer><QuestionIdentifier>{_text(name)}</QuestionIdentifier><FreeText>{_text(value)}</FreeText></Answer>"
        )
    parts.append("</QuestionFormAnswers>")
    return "".join(parts)


def _text(value: str) -> str:
    # A carriage return that is not escaped would be read back as a line feed.
    return html.escape(UNSPEAKABLE.sub("", value), quote=False).replace("\r", "&#13;")
