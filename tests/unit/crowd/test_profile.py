"""Fees, page parameters and returns of the crowds' profiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowd.profile import CompletionLink, FeeSchedule, PageParameters
from mturk.profile import MASTERS_PERCENT, MTURK

PROLIFIC_PAGE = PageParameters(hit="STUDY_ID", assignment="SESSION_ID", worker="PROLIFIC_PID")


@pytest.mark.parametrize(
    ("reward", "assignments", "surcharge", "fee"),
    [
        (100, 1, 0, 20),
        (100, 9, 0, 20),
        (100, 10, 0, 40),
        (100, 10, MASTERS_PERCENT, 45),
        (1, 1, 0, 1),
        (0, 1, 0, 1),
        (3, 1, 0, 1),
        (6, 1, 0, 2),
    ],
)
def test_mturk_fee_on_a_reward(reward: int, assignments: int, surcharge: int, fee: int) -> None:
    assert MTURK.fees.reward(reward, assignments, surcharge_percent=surcharge).fee_cents == fee


def test_a_bonus_costs_at_least_a_cent_and_no_bonus_costs_nothing() -> None:
    assert [MTURK.fees.bonus(cents).fee_cents for cents in (0, 1, 60)] == [0, 1, 12]


def test_the_estimate_without_a_crowd_equals_mturks_fees() -> None:
    assert FeeSchedule() == MTURK.fees


def test_a_schedule_without_a_threshold_never_rises() -> None:
    flat = FeeSchedule(percent=33, assignments_before_fee_rises=None)
    assert not flat.rises_for(1_000)
    assert flat.reward(100, 1_000).total_cents == 133


@given(st.integers(0, 10**9), st.integers(1, 100), st.sampled_from([0, MASTERS_PERCENT]))
def test_a_fee_is_its_percentage_rounded_up(reward: int, assignments: int, surcharge: int) -> None:
    percent = 20 + (20 if assignments >= 10 else 0) + surcharge
    fee = MTURK.fees.reward(reward, assignments, surcharge_percent=surcharge).fee_cents
    assert reward * percent <= fee * 100 < reward * percent + 100 or fee == 1


def test_a_negative_amount_is_invalid() -> None:
    with pytest.raises(ValueError, match="negative"):
        MTURK.fees.reward(-1)


def test_mturk_query_parameters_name_the_visit() -> None:
    query = {"hitId": "H", "assignmentId": "A", "workerId": "W", "turkSubmitTo": "https://market.example"}
    visit = MTURK.page.read(query)
    assert (visit.hit_id, visit.assignment_id, visit.worker_id) == ("H", "A", "W")
    assert visit.submit_to == "https://market.example"
    assert not visit.is_preview


@pytest.mark.parametrize("query", [{}, MTURK.page.preview_query(), {"assignmentId": "", "workerId": "W"}])
def test_a_visit_without_an_assignment_is_a_preview(query: dict[str, str]) -> None:
    assert MTURK.page.read(query).is_preview


def test_a_crowd_without_a_submit_address_reads_its_own_parameters() -> None:
    visit = PROLIFIC_PAGE.read({"STUDY_ID": "S", "SESSION_ID": "A", "PROLIFIC_PID": "W", "": "https://evil.example"})
    assert (visit.hit_id, visit.assignment_id, visit.worker_id, visit.submit_to) == ("S", "A", "W", "")
    assert not visit.is_preview


def test_mturk_pages_return_the_worker_with_a_form() -> None:
    form = MTURK.worker_return.form("https://market.example/s/1/", "A", {"session": "abc"})
    assert (form.method, form.url) == ("POST", "https://market.example/s/1/mturk/externalSubmit")
    assert form.fields == {"assignmentId": "A", "session": "abc"}


def test_a_completion_link_carries_only_its_code() -> None:
    form = CompletionLink("https://crowd.example/complete", "cc", "C0DE").form("", "A", {"session": "abc"})
    assert (form.method, form.url, form.fields) == ("GET", "https://crowd.example/complete", {"cc": "C0DE"})
