"""An attempt goes through JSON unchanged, and nothing else is accepted as one."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_backend.errors import VerdictError
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.targets.target import LabelPrediction
from ml_backend.verdict import judge
from tests.unit.ml_backend.serving.conftest import find_pack

SPEC = find_pack("sentiment").spec


def an_attempt(text: str = "A text.", target: str | None = "negative") -> AttemptRecord:
    answer = LabelPrediction("positive", {"positive": 0.7, "negative": 0.2, "neutral": 0.1})
    fields = {"prompt": "Write.", "text": text}
    verdict = judge(SPEC, fields, [("v1", answer), ("v2", answer)], target, now=datetime.now(UTC))
    return AttemptRecord(verdict, fields, 2, 4_100, "label_studio", 14, 17)


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(codec=None), max_size=50))
def test_an_attempt_survives_a_round_trip_through_json(text: str) -> None:
    attempt = an_attempt(text)
    assert AttemptRecord.from_json(json.loads(json.dumps(attempt.to_json()))) == attempt


def test_an_open_verdict_stays_open() -> None:
    attempt = an_attempt(target=None)
    back = AttemptRecord.from_json(json.loads(json.dumps(attempt.to_json())))
    assert (back.verdict.target, back.verdict.fooled) == (None, None)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x"},
        {"id": None},
        {"task": 5},
        {"said": []},
        {"said": [{}]},
        {"said": None},
        {"fooled": "yes"},
        {"judged_at": "2027-01-01T00:00:00"},
        {"judged_at": 5},
        {"fields": ["text"]},
        {"fields": {"text": 5}},
        {"latency_us": "4100"},
        {"latency_us": True},
        {"round": 1.5},
    ],
)
def test_an_invalid_attempt_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(VerdictError):
        AttemptRecord.from_json(an_attempt().to_json() | change)


@pytest.mark.parametrize("value", [None, [], "x", 5, {}])
def test_other_json_is_refused(value: object) -> None:
    with pytest.raises(VerdictError):
        AttemptRecord.from_json(value)
