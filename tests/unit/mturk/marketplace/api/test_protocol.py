"""Requests and responses match botocore's model, or an error names the member."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mturk.marketplace.api.protocol import ShapeMismatch, model

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(model().operations)), JSON, st.data())
def test_any_request_is_valid_or_refused(operation: str, value: Any, data: st.DataObject) -> None:
    names = ["HITId", "Reward", "MaxAssignments", "ExpireAt", "WorkerIds", "QualificationRequirements", "Notification"]
    members = data.draw(st.dictionaries(st.sampled_from(names), JSON))
    for sent in (value, members):
        with suppress(ShapeMismatch):
            assert isinstance(model().request(operation, sent), dict)


def test_times_are_numbers_in_json_and_aware_in_python() -> None:
    time = datetime(2027, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    read = model().request("UpdateExpirationForHIT", {"HITId": "3A", "ExpireAt": time.timestamp()})
    assert read["ExpireAt"] == time
    assert model().response("GetHIT", {"HIT": {"CreationTime": time}}) == {"HIT": {"CreationTime": time.timestamp()}}
    with pytest.raises(ShapeMismatch, match="CreationTime"):
        model().response("GetHIT", {"HIT": {"CreationTime": datetime(2027, 3, 1)}})


def test_null_members_count_as_missing() -> None:
    assert model().request("ListHITs", {"MaxResults": None}) == {}
    with pytest.raises(ShapeMismatch, match="HITId"):
        model().request("GetHIT", {"HITId": None})


def test_an_error_names_the_path_of_a_nested_member() -> None:
    bad = {"QualificationTypeId": "3A", "Comparator": "In", "LocaleValues": [{"Country": "USA"}]}
    members = {"Reward": "1", "Title": "t", "Description": "d", "AssignmentDurationInSeconds": 60}
    with pytest.raises(ShapeMismatch, match=r"^QualificationRequirements\[0\].LocaleValues\[0\].Country "):
        model().request("CreateHITType", {**members, "QualificationRequirements": [bad]})


def test_a_response_that_does_not_match_the_model_is_refused() -> None:
    with pytest.raises(ShapeMismatch, match=r"HIT\.Colour"):
        model().response("GetHIT", {"HIT": {"Colour": "red"}})
    with pytest.raises(ShapeMismatch, match=r"HIT\.HITStatus"):
        model().response("GetHIT", {"HIT": {"HITStatus": "Free"}})
