"""Targets without a model: their answers are predictable, and a test can make them wait or fail."""

import threading
from collections.abc import Callable, Sequence

from ml_backend.targets.target import Capabilities, LabelPrediction, Prediction, Row, SpanPrediction
from templates.spec import TaskSpec


class FakeTarget:
    """Predicts the label that the text names, else the first one; for QA a word of the passage.

    `before` is called before each prediction: there a test can hold it, or make it fail.
    """

    def __init__(self, spec: TaskSpec, version: str = "v1", before: Callable[[], None] | None = None) -> None:
        self.version = version
        self.capabilities = Capabilities(fields=spec.model_input)
        self.asked: list[dict[str, str]] = []
        self._spec = spec
        self._before = before

    def predict(self, rows: Sequence[Row]) -> list[Prediction]:
        if self._before is not None:
            self._before()
        self.asked += [dict(row) for row in rows]
        return [self._answer(row) for row in rows]

    def _answer(self, row: Row) -> Prediction:
        written = row[self._written()]
        if self._spec.kind == "qa":
            passage = row[self._spec.model_input[1]]
            word = next((one for one in passage.split() if one.strip(".,") in written.split()), passage.split()[0])
            return SpanPrediction(word, passage.index(word), passage.index(word) + len(word), 0.75)
        names = self._spec.label_names
        label = next((name for name in sorted(names, key=len, reverse=True) if name in written), names[0])
        rest = 0.25 / (len(names) - 1)
        return LabelPrediction(label, {name: 0.75 if name == label else rest for name in names})

    def _written(self) -> str:
        inputs = {field.name for field in self._spec.with_role("input")}
        return next(name for name in self._spec.model_input if name in inputs)


class Hold:
    """Blocks callers until it is opened, and counts them."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._changed = threading.Condition()
        self.inside = 0

    def __call__(self) -> None:
        with self._changed:
            self.inside += 1
            self._changed.notify_all()
        assert self._open.wait(30), "the hold was not opened"
        with self._changed:
            self.inside -= 1
            self._changed.notify_all()

    def open(self) -> None:
        self._open.set()

    def wait_for(self, inside: int) -> None:
        """Wait until that many are blocked."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.inside == inside, 30), f"{self.inside} came, not {inside}"
