from xml.etree import ElementTree as ET

import pytest

from crowd.errors import CrowdRefused, CrowdUnavailable
from mturk.question import external_question, read_answers

SPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd}"


def answers(*fields: str) -> str:
    return f'<?xml version="1.0"?><QuestionFormAnswers xmlns="urn:answers">{"".join(fields)}</QuestionFormAnswers>'


def answer(name: str, *values: str, kind: str = "FreeText") -> str:
    told = "".join(f"<{kind}>{value}</{kind}>" for value in values)
    return f"<Answer><QuestionIdentifier>{name}</QuestionIdentifier>{told}</Answer>"


def test_any_page_address_survives_the_round_trip() -> None:
    url = "https://outfox.example/hit?task=a&text=<b>&é=\"'"
    root = ET.fromstring(external_question(url, 800))
    assert root.tag == f"{SPACE}ExternalQuestion"
    assert root.findtext(f"{SPACE}ExternalURL") == url
    assert root.findtext(f"{SPACE}FrameHeight") == "800"


def test_a_question_of_66_kb_is_refused_with_its_size() -> None:
    with pytest.raises(CrowdRefused):
        external_question(f"https://outfox.example/{'x' * 66_000}")


def test_a_question_may_be_as_long_as_mturk_allows_and_no_longer() -> None:
    room = 65_535 - len(external_question("https://outfox.example/"))
    external_question(f"https://outfox.example/{'x' * room}")
    with pytest.raises(CrowdRefused):
        external_question(f"https://outfox.example/{'x' * (room + 1)}")


@pytest.mark.parametrize("url", ["", "outfox.example/hit", "javascript:alert(1)", "file:///etc/passwd", "https://"])
def test_an_address_that_no_worker_can_open_is_refused(url: str) -> None:
    with pytest.raises(CrowdRefused):
        external_question(url)


def test_a_frame_of_negative_height_is_refused() -> None:
    with pytest.raises(CrowdRefused):
        external_question("https://outfox.example/", -1)


def test_answers_are_read_by_the_names_of_their_fields() -> None:
    told = answers(answer("text", "Grüße &amp; &lt;b&gt;\nnext line"), answer("empty", ""), answer("nothing"))
    assert read_answers(told) == {"text": "Grüße & <b>\nnext line", "empty": "", "nothing": ""}


def test_a_field_with_several_values_is_one_answer() -> None:
    told = answers(answer("boxes", "a", "b"), answer("choice", "x", kind="SelectionIdentifier"))
    assert read_answers(told) == {"boxes": "a|b", "choice": "x"}


def test_the_same_field_sent_twice_keeps_both() -> None:
    assert read_answers(answers(answer("box", "a"), answer("box", "b"))) == {"box": "a|b"}


def test_empty_work_has_no_answers() -> None:
    assert read_answers("") == {}


@pytest.mark.parametrize(
    "xml",
    [
        "no xml",
        "<QuestionFormAnswers>",
        '<!DOCTYPE x [<!ENTITY a "aaaa">]><QuestionFormAnswers>&a;</QuestionFormAnswers>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>',
    ],
)
def test_malformed_and_hostile_answers_are_refused(xml: str) -> None:
    with pytest.raises(CrowdUnavailable):
        read_answers(xml)
