from collections.abc import Mapping, Sequence

import pytest

from ml_backend.errors import EvaluationDataInvalid
from ml_backend.evaluation import evaluate, headline
from ml_backend.targets.target import Capabilities, LabelPrediction, Prediction, SpanPrediction
from templates import SeedRow, find_pack
from tests.unit.ml_backend.conftest import label_row


class Fixed:
    """A Target with fixed predictions."""

    version = "fixed"
    capabilities = Capabilities(fields=("text",))

    def __init__(self, answers: Sequence[Prediction]) -> None:
        self._answers = list(answers)

    def predict(self, rows: Sequence[Mapping[str, str]]) -> list[Prediction]:
        return self._answers[: len(rows)]


def predicted(label: str) -> LabelPrediction:
    return LabelPrediction(label, {label: 1.0})


def test_a_classifier_is_evaluated_by_label_and_overall() -> None:
    spec = find_pack("sentiment").spec
    right = ["positive", "positive", "positive", "negative", "neutral", "neutral"]
    answered = ["positive", "positive", "negative", "negative", "neutral", "positive"]
    rows = [label_row(number, label, text="x") for number, label in enumerate(right)]
    metrics = evaluate(Fixed([predicted(label) for label in answered]), rows, spec)
    assert metrics["accuracy"] == pytest.approx(100 * 4 / 6, abs=1e-3)
    assert metrics["labels"]["negative"] == {"precision": 50.0, "recall": 100.0, "f1": 66.6667, "support": 1}
    assert metrics["macro_f1"] == pytest.approx(66.6667, abs=1e-3)
    assert metrics["confusion"]["neutral"] == {"positive": 1, "negative": 0, "neutral": 1}
    assert headline(metrics) == ("macro_f1", metrics["macro_f1"])


def test_a_label_that_is_never_right_scores_zero() -> None:
    rows = [label_row(0, "positive", text="x")]
    metrics = evaluate(Fixed([predicted("negative")]), rows, find_pack("sentiment").spec)
    assert (metrics["accuracy"], metrics["macro_f1"]) == (0, 0)


def test_spans_are_evaluated_as_squad_does() -> None:
    rows = [
        SeedRow(str(number), "held_out", {"question": "?", "passage": "p"}, None, "the green boat", 0, {})
        for number in range(2)
    ]
    answers = [SpanPrediction("Green boat", 0, 10, 0.5), SpanPrediction("boat house", 0, 10, 0.5)]
    metrics = evaluate(Fixed(answers), rows, find_pack("qa").spec)
    assert (metrics["rows"], metrics["exact_match"], metrics["f1"]) == (2, 50.0, 75.0)


def test_no_rows_are_an_error() -> None:
    with pytest.raises(EvaluationDataInvalid):
        evaluate(Fixed([]), [], find_pack("qa").spec)


def test_a_prediction_of_another_kind_is_an_error() -> None:
    with pytest.raises(EvaluationDataInvalid):
        evaluate(
            Fixed([SpanPrediction("x", 0, 1, 1.0)]), [label_row(0, "positive", text="x")], find_pack("sentiment").spec
        )
