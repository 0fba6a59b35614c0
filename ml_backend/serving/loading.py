"""Loading a model version for a task: only one that was trained for what the task's pack says now."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ml_backend.artefact import read_manifest
from ml_backend.errors import ModelError
from ml_backend.predictor import Predictor, load_predictor
from templates.pack import Pack


@dataclass(frozen=True)
class Loader:
    """Loads versions of these packs' tasks with one runtime."""

    packs: Mapping[str, Pack]
    runtime: str = "auto"

    def __call__(self, directory: Path) -> Predictor:
        """The predictor of the version in the folder, or a ModelError that says why it cannot serve."""
        manifest = read_manifest(directory)
        pack = self.packs.get(manifest.task)
        if pack is None:
            raise ModelError(f"{directory} is a model of {manifest.task}, which is not served here")
        spec = pack.spec
        theirs = (manifest.kind, sorted(manifest.labels), manifest.model_input)
        if theirs != (spec.kind, sorted(spec.label_names), spec.model_input):
            text = (
                f"version {manifest.version} was trained for other labels or fields than the pack {spec.name} has now"
            )
            raise ModelError(f"{text}; train the model again")
        return load_predictor(directory, runtime=self.runtime)
