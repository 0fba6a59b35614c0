import pytest

from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction
from ml_backend.training.parity import agree
from templates import SeedRow, find_pack
from tests.unit.ml_backend.conftest import label_row


def label(name: str, share: float = 1.0) -> LabelPrediction:
    return LabelPrediction(name, {name: share})


def span(text: str) -> SpanPrediction:
    return SpanPrediction(text, 0, len(text), 0.5)


def test_labels_agree_when_they_are_the_same_however_sure_each_is() -> None:
    row, spec = label_row(0, "positive", text="x"), find_pack("sentiment").spec
    assert agree(label("positive", 0.9), label("positive", 0.4), row, spec)
    assert not agree(label("negative"), label("neutral"), row, spec), "two wrong labels are two answers"


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("the green boat", "Green boat.", True),
        ("old green boat", "green boat", True),
        ("green boat", "harbour master", False),
        ("wrong thing", "another matter", False),
        # They overlap enough to pass for each other, but only one of them is right enough not to be fooled.
        ("boat of Anna Keel", "Anna Keel herself", False),
    ],
)
def test_spans_agree_when_no_verdict_can_tell_them_apart(one: str, two: str, *, same: bool) -> None:
    row = SeedRow("0", "held_out", {"question": "?", "passage": "p"}, None, "green boat of", 0, {})
    assert agree(span(one), span(two), row, find_pack("qa").spec) is same
    assert agree(span(two), span(one), row, find_pack("qa").spec) is same


def test_answers_of_different_kinds_never_agree() -> None:
    answers: list[Prediction] = [label("positive"), span("positive")]
    assert not agree(answers[0], answers[1], label_row(0, "positive", text="x"), find_pack("sentiment").spec)
