"""A stranger's model as a target: a process in the sandbox opens it and answers, and every answer is checked.

Run as a module, this is the program in the sandbox. It gets the texts that the model reads, never the right answers.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ml_backend.errors import ModelOutputInvalid
from ml_backend.sandbox.process import Sandbox, SandboxLimits
from ml_backend.sandbox.questions import Answer, ask, serve
from ml_backend.targets.target import (
    Capabilities,
    LabelPrediction,
    Prediction,
    Row,
    SpanPrediction,
    texts_of_rows,
)

FOLDER = "/model"
ROWS_PER_CALL = 256
# A number with 17 digits and its sign, exponent, comma and space.
NUMBER_BYTES = 32
TOLERANCE = 1e-3


class SandboxedTarget:
    """Answers with a model whose process has no network and limited resources; `close` ends it.

    `source` is a ModelSource as data; the process finds its folder at another path.
    """

    def __init__(self, source: Mapping[str, Any], limits: SandboxLimits) -> None:
        self.version = str(source["version"])
        self.capabilities = Capabilities(tuple(source["fields"]))
        self._labels = tuple(source["labels"])
        self._is_qa = source["task_kind"] == "qa"
        command = [sys.executable, "-P", "-m", __name__]
        self._sandbox = Sandbox(command, limits, {source["directory"]: FOLDER})
        ask(self._sandbox, {**source, "directory": FOLDER})

    def predict(self, rows: Sequence[Row]) -> list[Prediction]:
        """Return one prediction for each row, in their order."""
        texts = texts_of_rows(rows, self.capabilities.fields)
        found: list[Prediction] = []
        for first in range(0, len(texts), ROWS_PER_CALL):
            found += self._predictions(texts[first : first + ROWS_PER_CALL])
        return found

    def peak_bytes(self) -> int:
        """Return the peak resident bytes of the model's process so far."""
        return self._sandbox.peak_bytes()

    def close(self) -> None:
        """End the process."""
        self._sandbox.close()

    def _predictions(self, texts: Sequence[tuple[str, ...]]) -> list[Prediction]:
        numbers = 3 if self._is_qa else len(self._labels)
        answers = ask(self._sandbox, texts, NUMBER_BYTES * len(texts) * (numbers + 1))
        if not isinstance(answers, list) or len(answers) != len(texts):
            raise ModelOutputInvalid(f"the model's process does not give one answer to each of {len(texts)} rows")
        for answer in answers:
            if not isinstance(answer, list) or len(answer) != numbers or not all(map(_is_number, answer)):
                raise ModelOutputInvalid("the model's process answers with something else than numbers")
        if self._is_qa:
            return [self._span(answer, passage) for answer, (_, passage) in zip(answers, texts, strict=True)]
        return [self._label(answer) for answer in answers]

    def _label(self, shares: list[float]) -> LabelPrediction:
        if min(shares) < 0 or abs(sum(shares) - 1) > TOLERANCE:
            raise ModelOutputInvalid("the model's process answers with numbers that are no probabilities")
        label = self._labels[shares.index(max(shares))]
        return LabelPrediction(label, dict(zip(self._labels, map(float, shares), strict=True)))

    def _span(self, answer: list[float], passage: str) -> SpanPrediction:
        start, end, confidence = answer
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(passage)):
            raise ModelOutputInvalid("the model's process answers with a span that is not in the passage")
        if not 0 <= confidence <= 1 + TOLERANCE:
            raise ModelOutputInvalid("the model's process answers with a confidence that is no probability")
        return SpanPrediction(passage[start:end], start, end, min(float(confidence), 1.0))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _begin(source: dict[str, Any]) -> Answer:
    """Open the model, in the sandbox; return what answers texts with numbers."""
    from ml_backend.targets.sources import ModelSource

    target = ModelSource.from_data(source).open()
    fields, labels = target.capabilities.fields, source["labels"]

    def answer(texts: list[list[str]]) -> list[list[float]]:
        rows = [dict(zip(fields, one, strict=True)) for one in texts]
        return [_numbers(one, labels) for one in target.predict(rows)]

    return answer


def _numbers(prediction: Prediction, labels: Sequence[str]) -> list[float]:
    if isinstance(prediction, SpanPrediction):
        return [prediction.start, prediction.end, prediction.confidence]
    return [prediction.probabilities[label] for label in labels]


if __name__ == "__main__":
    serve(_begin)
