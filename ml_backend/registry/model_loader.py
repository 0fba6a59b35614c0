"""Loading of model versions: fetched, checked against the task's pack, warmed up and probed before they answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import one_line
from ml_backend.artefact import read_manifest
from ml_backend.errors import BackendError, ModelError, ModelFileCorrupt, ModelMismatch
from ml_backend.registry.registry import Registry
from ml_backend.targets.loading import load_target
from ml_backend.targets.probes import check_ready
from ml_backend.targets.target import Target
from templates.pack import Pack

Load = Callable[[Path], Target]


@dataclass(frozen=True)
class ModelLoader:
    """Loads versions for the tasks of these packs with one runtime."""

    packs: Mapping[str, Pack]
    runtime: str = "auto"

    def __call__(self, directory: Path) -> Target:
        """Load the version in the folder; raise a ModelError if it was not trained for the pack as it is now."""
        manifest = read_manifest(directory)
        pack = self.packs.get(manifest.task)
        if pack is None:
            raise ModelMismatch(f"{directory} is a model for {manifest.task}, which is not served here")
        spec = pack.spec
        trained_for = (manifest.kind, sorted(manifest.labels), manifest.model_input)
        if trained_for != (spec.kind, sorted(spec.label_names), spec.model_input):
            text = f"version {manifest.version} was trained for other labels or fields than pack {spec.name} has now"
            raise ModelMismatch(f"{text}; train the model again")
        return load_target(directory, runtime=self.runtime)


def prepare(registry: Registry, load: Load, task: str, version: str) -> Target:
    """Fetch, load and warm up a version and check its probes; raise a ModelError if it is not fit to serve."""
    directory = registry.fetch(task, version)
    try:
        target = load(directory)
        check_ready(target)
    except BackendError:
        raise
    except Exception as error:
        # A runtime may raise anything; it must not stop the model that answers now.
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise ModelError(f"version {version} of {task} does not load ({reason}); train or export it again") from error
    if target.version != version:
        raise ModelFileCorrupt(f"{directory} identifies itself as {target.version}; restore the folder or train again")
    return target
