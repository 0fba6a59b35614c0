"""Where a model to evaluate comes from, as plain data: another process opens the same target from it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

from ml_backend.encoding import Kind
from ml_backend.targets.foreign import open_foreign
from ml_backend.targets.loading import check_ready, load_target, warm_up
from ml_backend.targets.target import Target

SourceKind = Literal["version", "huggingface", "onnx"]


@dataclass(frozen=True)
class ModelSource:
    """A folder with a model, and how to open it; `labels` are the task's, in the order of the model's outputs."""

    kind: SourceKind
    directory: str
    version: str
    task_kind: Kind
    fields: tuple[str, ...]
    labels: tuple[str, ...]
    runtime: str = "auto"

    def open(self) -> Target:
        """Return the target, warmed up and checked."""
        directory = Path(self.directory)
        if self.kind == "version":
            target = load_target(directory, self.runtime)
            check_ready(target)
            return target
        target = open_foreign(self.kind, directory, self.version, self.task_kind, self.fields, self.labels)
        warm_up(target)
        return target

    def to_json(self) -> str:
        """Return the source as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the source that `to_json` described."""
        data = json.loads(text)
        return cls(**{**data, "fields": tuple(data["fields"]), "labels": tuple(data["labels"])})
