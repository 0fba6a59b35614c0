from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowd.errors import CrowdRefused, CrowdUnavailable
from crowd.port import AssignmentState, Comparator, HitTerms, Requirement, Restriction
from crowd.profile import BuiltInQualification
from mturk.shapes import assignment_of, bonus_of, cents_of, decimal_dollars, reason_with_key, terms_shape

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
