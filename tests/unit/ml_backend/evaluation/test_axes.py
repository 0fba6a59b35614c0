"""Performance and calibration against independent computations, from stored answers."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, precision_score

from ml_backend.evaluation.answers import Answer, ScoredAnswers, answer_pass, read_answers
from ml_backend.evaluation.calibration import BINS, calibration
from ml_backend.evaluation.performance import performance
from ml_backend.evaluation.values import AxisResult, Value
from ml_backend.verdict import exact_match
from ml_backend.verdict import f1_score as squad_f1
from templates import TaskSpec, find_pack
from templates.rows import SeedRow

DRAW = np.random.default_rng(11)


class Answers:
    """Answers in the order of the rows."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = iter(answers)

    def answers(self, rows: list[SeedRow]) -> list[Answer]:
        return [next(self._answers) for _ in rows]


def stored(rows: list[SeedRow], answers: list[Answer], spec: TaskSpec, folder: Path) -> ScoredAnswers:
    one_pass = answer_pass(folder / "parts", Answers(*answers), spec, ("topic",))  # type: ignore[arg-type]
    one_pass.run(rows, lambda done: None)
    assert one_pass.collect(folder / "answers.parquet") == len(rows)
    return read_answers(folder / "answers.parquet", spec)


def value(result: AxisResult, metric: str, name: str = "") -> Value:
    (found,) = [one for one in result.values if (one.metric, one.slice) == (metric, name)]
    return found


def labelled(folder: Path, count: int = 400) -> tuple[list[str], list[str], list[float], ScoredAnswers]:
    spec = find_pack("sentiment").spec
    gold = DRAW.choice(spec.label_names, count).tolist()
    said = [one if DRAW.random() < 0.7 else str(DRAW.choice(spec.label_names)) for one in gold]
    sure = DRAW.uniform(1 / 3, 1, count).round(3).tolist()
    rows = [
        SeedRow(
            f"r{number}", "held_out", {"text": "A day."}, label, None, None, {"topic": "food" if number % 4 else None}
        )
        for number, label in enumerate(gold)
    ]
    answers = [Answer(text, confidence) for text, confidence in zip(said, sure, strict=True)]
    return gold, said, sure, stored(rows, answers, spec, folder)


def test_the_performance_of_labels_is_that_of_scikit_learn(tmp_path: Path) -> None:
    gold, said, _, answers = labelled(tmp_path)
    labels = list(find_pack("sentiment").spec.label_names)
    result = performance(answers)
    assert value(result, "accuracy").value == pytest.approx(100 * accuracy_score(gold, said))
    assert value(result, "macro_f1").value == pytest.approx(100 * f1_score(gold, said, average="macro"))
    per_label = f1_score(gold, said, average=None, labels=labels)
    precisions = precision_score(gold, said, average=None, labels=labels)
    for label, f1, precision in zip(labels, per_label, precisions, strict=True):
        assert value(result, "f1", f"label: {label}").value == pytest.approx(100 * f1)
        assert value(result, "precision", f"label: {label}").value == pytest.approx(100 * precision)
        assert value(result, "accuracy", f"label: {label}").n == gold.count(label)
    food = [number for number in range(len(gold)) if number % 4]
    expected = 100 * accuracy_score([gold[one] for one in food], [said[one] for one in food])
    assert value(result, "accuracy", "topic: food").value == pytest.approx(expected)
    matrix = confusion_matrix(gold, said, labels=labels).tolist()
    assert [list(result.details["confusion"][label].values()) for label in labels] == matrix


def test_the_performance_of_answers_is_squads(tmp_path: Path) -> None:
    spec = find_pack("qa").spec
    passage = "The old ferry of harbour seven was built by Anna Keel and painted green."
    golds, saids = ["Anna Keel", "green", "the old ferry"], ["Keel", "green", "The Old ferry!"]
    rows = [
        SeedRow(f"r{number}", "held_out", {"question": "What?", "passage": passage}, None, gold, None, {})
        for number, gold in enumerate(golds)
    ]
    result = performance(stored(rows, [Answer(said, 0.5) for said in saids], spec, tmp_path))
    pairs = list(zip(saids, golds, strict=True))
    assert value(result, "f1").value == pytest.approx(100 * np.mean([squad_f1(*pair) for pair in pairs]), abs=1e-4)
    assert value(result, "exact_match").value == pytest.approx(100 * np.mean([exact_match(*pair) for pair in pairs]))


def test_the_calibration_error_is_the_mean_distance_over_bins(tmp_path: Path) -> None:
    gold, said, sure, answers = labelled(tmp_path)
    total = 0.0
    for place in range(BINS):
        inside = [one for one, given in enumerate(sure) if place / BINS < given <= (place + 1) / BINS]
        if inside:
            share = np.mean([gold[one] == said[one] for one in inside])
            total += len(inside) * abs(float(share) - float(np.mean([sure[one] for one in inside])))
    found = value(calibration(answers), "ece")
    assert found.value == pytest.approx(100 * total / len(gold))
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high


def test_answers_without_confidence_have_no_calibration(tmp_path: Path) -> None:
    spec = find_pack("sentiment").spec
    rows = [SeedRow("r1", "held_out", {"text": "A day."}, "positive", None, None, {})]
    result = calibration(stored(rows, [Answer("positive", None)], spec, tmp_path))
    assert (result.values, bool(result.note)) == ([], True)
