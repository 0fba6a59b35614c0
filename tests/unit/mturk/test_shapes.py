from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowd.errors import CrowdRefused, CrowdUnavailable
from crowd.port import AssignmentState, Comparator, HitTerms, Requirement, Restriction
from crowd.profile import BuiltInQualification
from mturk.shapes import (
    assignment_of,
    bonus_of,
    cents_of,
    decimal_dollars,
    external_question,
    read_answers,
    reason_with_key,
    terms_shape,
)

KEYS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:", min_size=1, max_size=64)


@given(st.integers(0, 10**11))
def test_cents_survive_the_round_trip_through_dollars(cents: int) -> None:
    assert cents_of(decimal_dollars(cents)) == cents


@pytest.mark.parametrize(("amount", "cents"), [("1.23", 123), ("0.05", 5), ("7", 700), ("7.", 700), ("7.5", 750)])
def test_dollars_are_read_in_every_valid_form(amount: str, cents: int) -> None:
    assert cents_of(amount) == cents


@pytest.mark.parametrize("amount", ["1.234", "-1", "1,00", "", "1e2", " 1", "\u0661.\u0662\u0663", "1.2.3", "nan"])
def test_an_amount_that_is_not_whole_cents_is_refused(amount: str) -> None:
    with pytest.raises(CrowdUnavailable):
        cents_of(amount)


def test_a_negative_amount_is_never_sent() -> None:
    with pytest.raises(CrowdRefused):
        decimal_dollars(-5)


@given(st.text(), KEYS)
def test_a_bonus_keeps_its_reason_and_its_key(reason: str, key: str) -> None:
    paid = bonus_of(
        {
            "WorkerId": "A1",
            "AssignmentId": "3A",
            "BonusAmount": "1.50",
            "Reason": reason_with_key(reason, key),
            "GrantTime": datetime(2027, 1, 1, tzinfo=UTC),
        }
    )
    assert (paid.reason, paid.key, paid.cents) == (reason, key, 150)


@pytest.mark.parametrize("reason", ["", "Well done", "[ref ]", "see [ref abc] above", "[ref a b]"])
def test_a_bonus_that_we_did_not_pay_has_no_key(reason: str) -> None:
    told = {"WorkerId": "A1", "AssignmentId": "3A", "BonusAmount": "1", "Reason": reason}
    paid = bonus_of({**told, "GrantTime": datetime(2027, 1, 1, tzinfo=UTC)})
    assert (paid.reason, paid.key) == (reason, "")


def test_all_requirements_are_sent() -> None:
    terms = HitTerms(
        "title",
        "description",
        ("a", "b"),
        1205,
        60,
        120,
        (
            Requirement(
                BuiltInQualification.LOCALE, Comparator.IN, countries=("US", "CA-QC"), restriction=Restriction.DISCOVER
            ),
            Requirement("3QUAL", Comparator.EXISTS),
            Requirement(
                BuiltInQualification.APPROVAL_RATE, Comparator.AT_LEAST, (98,), restriction=Restriction.PREVIEW
            ),
        ),
    )
    assert terms_shape(terms) == {
        "Title": "title",
        "Description": "description",
        "Keywords": "a, b",
        "Reward": "12.05",
        "AssignmentDurationInSeconds": 60,
        "AutoApprovalDelayInSeconds": 120,
        "QualificationRequirements": [
            {
                "QualificationTypeId": "00000000000000000071",
                "Comparator": "In",
                "LocaleValues": [{"Country": "US"}, {"Country": "CA", "Subdivision": "QC"}],
                "ActionsGuarded": "DiscoverPreviewAndAccept",
            },
            {"QualificationTypeId": "3QUAL", "Comparator": "Exists", "ActionsGuarded": "Accept"},
            {
                "QualificationTypeId": "000000000000000000L0",
                "Comparator": "GreaterThanOrEqualTo",
                "IntegerValues": [98],
                "ActionsGuarded": "PreviewAndAccept",
            },
        ],
    }


def test_work_that_was_rejected_and_then_approved_has_the_time_of_its_approval() -> None:
    moments = [datetime(2027, 1, day, tzinfo=UTC) for day in range(1, 6)]
    accepted, submitted, rejected, approved, automatic = moments
    work = assignment_of(
        {
            "AssignmentId": "3A",
            "HITId": "3H",
            "WorkerId": "A1",
            "AssignmentStatus": "Approved",
            "AcceptTime": accepted,
            "SubmitTime": submitted,
            "RejectionTime": rejected,
            "ApprovalTime": approved,
            "AutoApprovalTime": automatic,
            "Answer": "",
        }
    )
    assert work.state is AssignmentState.APPROVED
    assert work.decided_at == approved


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
