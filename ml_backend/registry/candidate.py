"""A candidate: a model version that is fetched, checked, loaded and warmed up before anybody relies on it."""

from collections.abc import Callable
from pathlib import Path

from ml_backend.artefact import read_manifest
from ml_backend.errors import BackendError, ModelError
from ml_backend.manifest import Manifest
from ml_backend.predictor import Predictor
from ml_backend.probes import check_probes
from ml_backend.registry.registry import Registry

Load = Callable[[Path], Predictor]

# One short, one long, one of each: the first calls of a runtime plan and allocate for what they see.
WARM_UPS = (1, 60, 8)


def prepare(registry: Registry, load: Load, task: str, version: str) -> Predictor:
    """The version's predictor, which has answered already; a ModelError where it is not fit to serve."""
    directory = registry.fetch(task, version)
    manifest = read_manifest(directory)
    try:
        predictor = load(directory)
        _warm_up(predictor, manifest)
        check_probes(directory, predictor)
    except BackendError:
        raise
    except Exception as error:
        # Whatever a runtime raises over a model, it must not stop the one that answers now.
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ModelError(f"version {version} of {task} does not load ({why}); train or export it again") from error
    if predictor.version != version:
        raise ModelError(f"{directory} answers as {predictor.version}; restore the folder or train again")
    return predictor


def _warm_up(predictor: Predictor, manifest: Manifest) -> None:
    for words in WARM_UPS:
        row = dict.fromkeys(manifest.model_input, "warming up " * words)
        if len(predictor.predict([row])) != 1:
            raise ModelError(f"model version {manifest.version} does not give one answer to one row; train it again")
