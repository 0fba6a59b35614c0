"""Whether another form of a model answers as the model itself does, on rows that people wrote."""

from collections.abc import Sequence
from dataclasses import dataclass

from ml_backend.evaluation import Metrics, label_metrics, span_metrics
from ml_backend.fooled_rules import exact_match, find_rule
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction, Target
from ml_backend.training.data import TrainingData
from ml_backend.training.progress import Watch
from templates.rows import SeedRow
from templates.spec import TaskSpec

ROWS_AT_A_TIME = 64


@dataclass(frozen=True)
class Measured:
    """What one form of a model said to the held-out rows, and how good that was."""

    answers: Sequence[Prediction]
    metrics: Metrics

    @property
    def headline(self) -> float:
        """Accuracy of labels, F1 of spans."""
        return float(self.metrics["accuracy" if "accuracy" in self.metrics else "f1"])


def measure(predictor: Target, data: TrainingData, watch: Watch, what: str) -> Measured:
    """The predictor's answers to the held-out rows."""
    rows, spec = data.held_out, data.spec
    answers: list[Prediction] = []
    watch.start(len(rows), what)
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        part = rows[first : first + ROWS_AT_A_TIME]
        answers += predictor.predict([row.fields for row in part])
        watch.step(len(part))
    watch.finish()
    return Measured(
        answers, span_metrics(rows, answers) if spec.kind == "qa" else label_metrics(rows, answers, spec.label_names)
    )


def agreement(reference: Measured, other: Measured, data: TrainingData) -> float:
    """The share of rows, in points, that both answer the same."""
    rows = zip(reference.answers, other.answers, data.held_out, strict=True)
    same = sum(agree(one, two, row, data.spec) for one, two, row in rows)
    return round(100 * same / len(data.held_out), 4)


def agree(one: Prediction, two: Prediction, row: SeedRow, spec: TaskSpec) -> bool:
    """Whether no verdict can tell the two answers apart.

    Labels must be the same. Spans must have the same words; or the task's fooled rule must let each pass for the
    other and give both the same verdict on the row's right answer.
    """
    if isinstance(one, LabelPrediction) and isinstance(two, LabelPrediction):
        return one.label == two.label
    if not (isinstance(one, SpanPrediction) and isinstance(two, SpanPrediction)):
        return False
    if exact_match(one.text, two.text):
        return True
    rule, right = find_rule(spec.fooled.rule), str(row.answer)
    pass_for_each_other = not rule(one, two.text, spec.fooled) and not rule(two, one.text, spec.fooled)
    return pass_for_each_other and rule(one, right, spec.fooled) == rule(two, right, spec.fooled)
