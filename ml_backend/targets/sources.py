"""Where a model to evaluate comes from, as plain data: another process opens the same target from it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from ml_backend.encoding import Kind
from ml_backend.sandbox.process import SandboxLimits
from ml_backend.targets.foreign import open_foreign
from ml_backend.targets.loading import check_ready, load_target, warm_up
from ml_backend.targets.sandboxed import SandboxedTarget
from ml_backend.targets.target import Target

SourceKind = Literal["version", "huggingface", "onnx"]


@dataclass(frozen=True)
class ModelSource:
    """A folder with a model, and how to open it; `labels` are the task's, in the order of the model's outputs.

    A stranger's model has `limits`: it is only ever opened in a sandbox with these.
    """

    kind: SourceKind
    directory: str
    version: str
    task_kind: Kind
    fields: tuple[str, ...]
    labels: tuple[str, ...]
    runtime: str = "auto"
    limits: SandboxLimits | None = None

    def open(self) -> Target:
        """Return the target, warmed up and checked."""
        if self.limits is not None:
            return SandboxedTarget(asdict(replace(self, limits=None)), self.limits)
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
        return cls.from_data(json.loads(text))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the source of this JSON object."""
        limits = SandboxLimits(**data["limits"]) if data.get("limits") else None
        lists = {name: tuple(data[name]) for name in ("fields", "labels")}
        return cls(**{**data, **lists, "limits": limits})
