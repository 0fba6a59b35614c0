"""A trainer whose versions take no time, and a way to train real ones in less."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from common.progress import Progress
from ml_backend.errors import TrainingCancelled
from ml_backend.hashing import rows_sha256
from round_manager.learning.training_data import TrainingOrder, TrainingPlan
from tests.fakes.registry import make_version

STEPS = 3


@dataclass
class FakeTrainer:
    """Trains a version that predicts `label`, and finds it again by its rows.

    `before_step` is called before each step, and may raise.
    """

    models: Path
    label: str = "negative"
    fault: str = ""
    before_step: Callable[[int], None] = lambda step: None
    trained: list[str] = field(default_factory=list)

    def plan(self, order: TrainingOrder) -> TrainingPlan:
        note = self._note(order)
        for config in self.models.glob("*/m*/config.json"):
            if json.loads(config.read_text())["note"] == note:
                return TrainingPlan(order.mode or "head", config.parent)
        return TrainingPlan(order.mode or "head", None)

    def train(self, order: TrainingOrder, progress: Progress, cancel: Callable[[], bool]) -> Path:
        progress.start(STEPS, "The fake learns")
        for step in range(STEPS):
            self.before_step(step)
            if cancel():
                raise TrainingCancelled("training was cancelled; no model was written")
            progress.advance(1, f"step {step}")
        progress.finish()
        name = order.pack.spec.name
        learned = [row for row in order.rows if row.split == "train"]
        content = {
            "train": {"sha256": rows_sha256(learned, order.pack.spec), "rows": len(learned)},
            "sources": [source.model_dump() for source in order.sources],
        }
        note = self._note(order)
        version = make_version(self.models, self.label, task=name, note=note, fault=self.fault, content=content)
        self.trained.append(version)
        return self.models / name / version

    def _note(self, order: TrainingOrder) -> str:
        return f"{order.mode} {rows_sha256(order.rows, order.pack.spec)}"


def without_quantisation() -> AbstractContextManager[object]:
    """Train models without int8: on few rows it hardly ever agrees with PyTorch, and takes longer than the training."""
    # Here, because it imports PyTorch.
    from ml_backend.training import parity

    return patch.object(parity, "FORMS", [form for form in parity.FORMS if form.precision == "fp32"])
