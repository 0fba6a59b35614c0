"""A try goes through JSON unchanged, and nothing else is taken for one."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_backend.errors import VerdictError
from ml_backend.serving.tried import Tried
from ml_backend.targets.target import LabelPrediction
from ml_backend.verdict import judge
from tests.unit.serving.conftest import find_pack

SPEC = find_pack("sentiment").spec


def a_try(text: str = "A text.", target: str | None = "negative") -> Tried:
    answer = LabelPrediction("positive", {"positive": 0.7, "negative": 0.2, "neutral": 0.1})
    fields = {"prompt": "Write.", "text": text}
    verdict = judge(SPEC, fields, [("v1", answer), ("v2", answer)], target, now=datetime.now(UTC))
    return Tried(verdict, fields, 2, 4_100, "label_studio", 14, 17)


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(codec=None), max_size=50))
def test_a_try_comes_back_from_json_as_it_went(text: str) -> None:
    tried = a_try(text)
    assert Tried.from_json(json.loads(json.dumps(tried.to_json()))) == tried


def test_an_open_verdict_comes_back_open() -> None:
    tried = a_try(target=None)
    back = Tried.from_json(json.loads(json.dumps(tried.to_json())))
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
def test_what_is_no_try_is_not_taken_for_one(change: dict[str, Any]) -> None:
    with pytest.raises(VerdictError, match="no try"):
        Tried.from_json(a_try().to_json() | change)


@pytest.mark.parametrize("value", [None, [], "x", 5, {}])
def test_other_json_is_no_try(value: object) -> None:
    with pytest.raises(VerdictError):
        Tried.from_json(value)
