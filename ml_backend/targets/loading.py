"""Loading a target from the folder of its version. The kind in model.json decides which loader runs.

PyTorch takes seconds to import and much memory, so it is imported only where it runs a model.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from ml_backend.artefact import verify
from ml_backend.encoding import Network, TextEncoder
from ml_backend.errors import RuntimeNotAvailable, TargetKindUnknown
from ml_backend.manifest import TRAINED, Manifest, read_target_kind
from ml_backend.targets.probes import read_probes
from ml_backend.targets.target import Target
from ml_backend.targets.trained import TrainedClassifier, TrainedSpanFinder

RUNTIMES = ("auto", "onnx", "torch")

Loader = Callable[[Path, str], Target]


def load_target(directory: Path, runtime: str = "auto") -> Target:
    """Return the target of a version's folder, after the hash of every file was checked.

    For trained models, `auto` runs ONNX Runtime where the version was exported for it and PyTorch otherwise; `onnx`
    and `torch` insist on one of them. Other kinds ignore the runtime.
    """
    kind = read_target_kind(directory)
    loader = LOADERS.get(kind)
    if loader is None:
        raise TargetKindUnknown(f"{directory} is a target of kind {kind!r}; known kinds are {', '.join(LOADERS)}")
    return loader(directory, runtime)


def load_trained(directory: Path, runtime: str = "auto") -> Target:
    """Return the target of a model that was trained here."""
    if runtime not in RUNTIMES:
        raise RuntimeNotAvailable(f"unknown runtime `{runtime}`; use {', '.join(RUNTIMES)}")
    manifest = verify(directory)
    opened = _open_onnx if _runs_on_onnx(manifest, runtime) else _open_torch
    network, encoder = opened(directory, manifest)
    version, fields, probes = manifest.version, manifest.model_input, read_probes(directory)
    if manifest.kind == "qa":
        stride, longest = manifest.doc_stride, manifest.longest_answer
        return TrainedSpanFinder(version, network, encoder, fields, stride, longest, probes)
    return TrainedClassifier(version, network, encoder, manifest.labels, fields, probes)


# A further kind of target adds its loader here.
LOADERS: Mapping[str, Loader] = {TRAINED: load_trained}


def _runs_on_onnx(manifest: Manifest, runtime: str) -> bool:
    if runtime == "onnx" and not manifest.has_onnx:
        why = manifest.serving.why if manifest.serving else "it was trained before versions were exported"
        raise RuntimeNotAvailable(
            f"version {manifest.version} has no model.onnx ({why}); use runtime auto, or train it again"
        )
    return manifest.has_onnx and runtime != "torch"


def _open_onnx(directory: Path, manifest: Manifest) -> tuple[Network, TextEncoder]:
    from ml_backend.targets.onnx_runtime import open_onnx

    return open_onnx(directory, manifest.kind, len(manifest.labels), manifest.max_length)


def _open_torch(directory: Path, manifest: Manifest) -> tuple[Network, TextEncoder]:
    from ml_backend.targets.torch_runtime import open_torch

    return open_torch(directory, manifest)
