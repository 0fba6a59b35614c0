"""Loading a target from the folder of its version, and the checks before it serves.

The kind in model.json decides which loader runs. PyTorch takes seconds to import and much memory, so it is imported
only where it runs a model.

A probe is a row with the answer that the version gave when it was made. The same file can answer differently on
another machine: in versions from before weights had 7 bits, integer arithmetic saturates on some processors, and a
runtime can be broken. A version that no longer gives its own answers must not judge anyone, so PyTorch runs it there.
"""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ml_backend.artefact import verify
from ml_backend.errors import ModelFileCorrupt, ModelParityFailed, RuntimeNotAvailable
from ml_backend.manifest import TRAINED, Manifest, TrainedManifest, trained_only
from ml_backend.model_files import read_json_object
from ml_backend.targets.target import Prediction, Probe, Row, Target

if TYPE_CHECKING:
    from ml_backend.encoding import Network, TextEncoder

PROBES_FILE = "probes.json"
MAX_PROBES = 16
# Answers that depend on the last digit of a score may fall either way.
MAX_DIFFERENT = 2
MAX_PROBES_BYTES = 4_000_000

log = logging.getLogger(__name__)
RUNTIMES = ("auto", "onnx", "torch")

Loader = Callable[[Path, Manifest, str], Target]


def check_ready(target: Target) -> None:
    """Warm the target up and check its probes; raise ModelError if it is not fit to serve."""
    warm_up(target)
    check_probes(target)


def warm_up(target: Target) -> None:
    """Send the warm-up calls that the target's capabilities ask for."""
    for words in target.capabilities.warm_up:
        row = dict.fromkeys(target.capabilities.fields, "warming up " * words)
        if len(target.predict([row])) != 1:
            raise ModelParityFailed(f"model version {target.version} does not return one prediction for one row")


def check_probes(target: Target) -> None:
    """Raise ModelParityFailed unless the target answers its probes as it did when it was made."""
    probes = target.capabilities.probes
    answers = [target.predict([probe.fields])[0].text for probe in probes]
    different = sum(answer != probe.answer for answer, probe in zip(answers, probes, strict=True))
    if different > MAX_DIFFERENT:
        raise ModelParityFailed(
            f"model version {target.version} fails its parity check on this machine: {different} of {len(probes)} "
            "probes have another answer than when it was trained; train it on a machine of this kind"
        )


def choose_probes(rows: Sequence[Row], predictions: Sequence[Prediction], fields: Sequence[str]) -> list[Probe]:
    """Return probes from evenly spaced rows, with the predictions for them."""
    step = max(1, len(rows) // MAX_PROBES)
    pairs = list(zip(rows, predictions, strict=True))[::step][:MAX_PROBES]
    return [Probe({name: row[name] for name in fields}, prediction.text) for row, prediction in pairs]


def write_probes(directory: Path, probes: Sequence[Probe]) -> None:
    """Store the probes in a version's folder."""
    content = {"probes": [{"fields": dict(probe.fields), "said": probe.answer} for probe in probes]}
    (directory / PROBES_FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")


def read_probes(directory: Path) -> tuple[Probe, ...]:
    """Return the probes of a version's folder; versions from before there were probes have none."""
    path = directory / PROBES_FILE
    if not path.is_file():
        return ()
    found = read_json_object(path, MAX_PROBES_BYTES).get("probes")
    try:
        probes = tuple(
            Probe({str(k): str(v) for k, v in one["fields"].items()}, str(one["said"])) for one in found or ()
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelFileCorrupt(f"{path} does not hold probes; restore the folder or train again") from error
    if not probes:
        raise ModelFileCorrupt(f"{path} holds no probes, so the version cannot be checked; train it again")
    return probes


def load_target(directory: Path, runtime: str = "auto") -> Target:
    """Return the target of a version's folder, after the hash of every file was checked.

    For trained models, `auto` runs ONNX Runtime where the version was exported for it and answers its probes on this
    machine, and PyTorch otherwise; `onnx` and `torch` insist on one of them. Other kinds ignore the runtime.
    """
    manifest = verify(directory)
    return LOADERS[manifest.target](directory, manifest, runtime)


def load_trained(directory: Path, manifest: Manifest, runtime: str) -> Target:
    """Return the target of a model that was trained here."""
    if runtime not in RUNTIMES:
        raise RuntimeNotAvailable(f"unknown runtime `{runtime}`; use {', '.join(RUNTIMES)}")
    trained = trained_only(manifest)
    if not _runs_on_onnx(trained, runtime):
        return _trained_target(directory, trained, _open_torch)
    target = _trained_target(directory, trained, _open_onnx)
    if runtime == "auto":
        try:
            check_probes(target)
        except ModelParityFailed as error:
            log.warning("PyTorch runs this version here: %s", error)
            return _trained_target(directory, trained, _open_torch)
    return target


Open = Callable[[Path, TrainedManifest], "tuple[Network, TextEncoder]"]


def _trained_target(directory: Path, trained: TrainedManifest, open_network: Open) -> Target:
    # Commands that load no model start faster without NumPy.
    from ml_backend.targets.trained import TrainedClassifier, TrainedSpanFinder

    network, encoder = open_network(directory, trained)
    version, fields, probes = trained.version, trained.model_input, read_probes(directory)
    if trained.kind == "qa":
        stride, longest = trained.doc_stride, trained.longest_answer
        return TrainedSpanFinder(version, network, encoder, fields, stride, longest, probes)
    return TrainedClassifier(version, network, encoder, trained.labels, fields, probes)


# A further kind of target adds its loader here.
LOADERS: dict[str, Loader] = {TRAINED: load_trained}


def _runs_on_onnx(manifest: TrainedManifest, runtime: str) -> bool:
    if runtime == "onnx" and not manifest.has_onnx:
        why = manifest.serving.why if manifest.serving else "it was trained before versions were exported"
        raise RuntimeNotAvailable(
            f"version {manifest.version} has no model.onnx ({why}); use runtime auto, or train it again"
        )
    return manifest.has_onnx and runtime != "torch"


def _open_onnx(directory: Path, manifest: TrainedManifest) -> "tuple[Network, TextEncoder]":
    from ml_backend.targets.onnx_runtime import open_onnx

    return open_onnx(directory, manifest.kind, len(manifest.labels), manifest.max_length)


def _open_torch(directory: Path, manifest: TrainedManifest) -> "tuple[Network, TextEncoder]":
    from ml_backend.targets.torch_runtime import open_torch

    return open_torch(directory, manifest)
