"""Loading of model versions: fetched, checked against the task's pack, warmed up and probed before they answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import one_line
from ml_backend.artefact import read_manifest
from ml_backend.errors import BackendError, ModelError
from ml_backend.manifest import Manifest
from ml_backend.predictor import Predictor, load_predictor
from ml_backend.probes import check_probes
from ml_backend.registry.registry import Registry
from templates.pack import Pack

Load = Callable[[Path], Predictor]

# A short, a long and a medium text: the first calls of a runtime plan and allocate for the sizes they see.
WARM_UPS = (1, 60, 8)


@dataclass(frozen=True)
class ModelLoader:
    """Loads versions for the tasks of these packs with one runtime."""

    packs: Mapping[str, Pack]
    runtime: str = "auto"

    def __call__(self, directory: Path) -> Predictor:
        """Load the version in the folder; raise a ModelError if it was not trained for the pack as it is now."""
        manifest = read_manifest(directory)
        pack = self.packs.get(manifest.task)
        if pack is None:
            raise ModelError(f"{directory} is a model for {manifest.task}, which is not served here")
        spec = pack.spec
        trained_for = (manifest.kind, sorted(manifest.labels), manifest.model_input)
        if trained_for != (spec.kind, sorted(spec.label_names), spec.model_input):
            text = f"version {manifest.version} was trained for other labels or fields than pack {spec.name} has now"
            raise ModelError(f"{text}; train the model again")
        return load_predictor(directory, runtime=self.runtime)


def prepare(registry: Registry, load: Load, task: str, version: str) -> Predictor:
    """Fetch, load and warm up a version and check its probes; raise a ModelError if it is not fit to serve."""
    directory = registry.fetch(task, version)
    manifest = read_manifest(directory)
    try:
        predictor = load(directory)
        _warm_up(predictor, manifest)
        check_probes(directory, predictor)
    except BackendError:
        raise
    except Exception as error:
        # A runtime may raise anything; it must not stop the model that answers now.
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise ModelError(f"version {version} of {task} does not load ({reason}); train or export it again") from error
    if predictor.version != version:
        raise ModelError(f"{directory} identifies itself as {predictor.version}; restore the folder or train again")
    return predictor


def _warm_up(predictor: Predictor, manifest: Manifest) -> None:
    for words in WARM_UPS:
        row = dict.fromkeys(manifest.model_input, "warming up " * words)
        if len(predictor.predict([row])) != 1:
            raise ModelError(f"version {manifest.version} does not return one answer per row; train it again")
