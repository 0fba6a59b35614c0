"""Valid model versions that load instantly: one weight, and a fixed answer."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from ml_backend.artefact import write_version
from ml_backend.errors import ModelError
from ml_backend.registry.local import LocalRegistry
from ml_backend.registry.registry import Timing
from ml_backend.targets.loading import read_probes, write_probes
from ml_backend.targets.target import Capabilities, LabelPrediction, Prediction, Probe
from templates.spec import TrainingSettings

TASK = "sentiment"
LABELS = ("positive", "neutral", "negative")
ROW = {"text": "A day like any other."}
BEGINNING = datetime(2027, 3, 1, tzinfo=UTC)


class FixedTarget:
    """A Target that always predicts the label it was made for."""

    def __init__(self, version: str, label: str, probes: tuple[Probe, ...] = ()) -> None:
        self.version = version
        self.capabilities = Capabilities(fields=("text",), warm_up=(1, 60, 8), probes=probes)
        self._label = label

    def predict(self, rows: Sequence[Mapping[str, str]]) -> list[Prediction]:
        probabilities = {label: 0.8 if label == self._label else 0.1 for label in LABELS}
        return [LabelPrediction(self._label, probabilities) for _ in rows]


class QuickRegistry(LocalRegistry):
    """A registry in a folder with short intervals, so that tests need not wait."""

    timing = Timing(poll=0.01, wait=0.005, heartbeat=0.05, lease=2.0)


def make_version(
    models: Path,
    label: str = "positive",
    *,
    task: str = TASK,
    note: str = "",
    fault: str = "",
    weights: int = 64,
    said: str = "",
    content: Mapping[str, Any] | None = None,
) -> str:
    """Write a version that predicts the label; the note changes its hash, a fault makes it fail to load.

    `said` is the answer in its probes; without it, there are no probes. `content` changes its manifest.
    """

    def save(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({"label": label, "note": note, "fault": fault}))
        (folder / "tokenizer.json").write_text("{}")
        if said:
            write_probes(folder, [Probe({"text": f"Text {number}."}, said) for number in range(5)])
        save_file({"weight": np.ones(weights, dtype=np.float32)}, folder / "model.safetensors")

    directory, manifest = write_version(models, {**_content(task), **(content or {})}, save)
    assert directory.name == manifest.version
    return manifest.version


def load_fixed(directory: Path) -> FixedTarget:
    """Load such a version; with the fault `broken` it fails like a runtime, with `unfit` with an error of ours."""
    config = json.loads((directory / "config.json").read_text())
    if config["fault"] == "broken":
        raise RuntimeError("the graph has no outputs")
    if config["fault"] == "unfit":
        raise ModelError("the model has no labels; train it again")
    return FixedTarget(directory.name, config["label"], read_probes(directory))


def corrupt(directory: Path) -> None:
    """Change a bit of the weights."""
    weights = directory / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(bytes(content))


def eventually(condition: Callable[[], Any], what: str, seconds: float = 10.0, pause: float = 0.005) -> None:
    """Wait until the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain until {what}"
        time.sleep(pause)


def _content(task: str) -> dict[str, Any]:
    data = {"sha256": "0" * 64, "rows": 1}
    return {
        "format": 1,
        "task": task,
        "kind": "classification",
        "labels": list(LABELS),
        "model_input": ["text"],
        "max_length": 64,
        "doc_stride": 16,
        "longest_answer": 30,
        "mode": "head",
        "parent": None,
        "base": "fixed",
        "base_sha256": "0" * 64,
        "training": TrainingSettings().model_dump(mode="json"),
        "train": data,
        "held_out": data,
        "metrics": {"accuracy": 100.0},
        "code_version": "test",
        "created_at": (BEGINNING + timedelta(microseconds=time.monotonic_ns() // 1_000)).isoformat(),
    }
