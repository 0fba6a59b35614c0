"""Training a model version, from a pack's rows to files on disk."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from common.progress import Progress
from ml_backend.artefact import write_version
from ml_backend.checkpoint import EMBEDDED
from ml_backend.encoding import Network, TextEncoder
from ml_backend.evaluation import Metrics, evaluate
from ml_backend.manifest import ONNX, DataSource, TrainedManifest
from ml_backend.targets.loading import write_probes
from ml_backend.targets.target import Target
from ml_backend.targets.torch_runtime import TorchNetwork, save_network, text_encoder
from ml_backend.targets.trained import MAX_ANSWER_TOKENS, TrainedClassifier, TrainedSpanFinder
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import LabelExamples, SpanExamples, texts_of
from ml_backend.training.fine_tuning import fine_tune
from ml_backend.training.heads import fit_label_head, fit_span_head
from ml_backend.training.parity import ExportJob, ServingArtefact, choose_artefact, predict_held_out
from ml_backend.training.pooling import add_mean_pooling, add_pair_pooling, can_pool
from ml_backend.training.start import ProgressMonitor, Start, start_from
from templates import Pack, SeedRow
from templates.spec import TaskSpec, TrainingSettings

# In the models' folder; listings ignore it.
CACHE = ".cache"


@dataclass(frozen=True)
class TrainingResult:
    """A finished training: the version's folder, manifest and held-out metrics, and the time it took."""

    directory: Path
    manifest: TrainedManifest
    metrics: Metrics
    seconds: float


def now_utc() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def train(
    pack: Pack,
    models_root: Path,
    *,
    mode: str | None = None,
    rows: Sequence[SeedRow] | None = None,
    sources: Sequence[DataSource] = (),
    parent: Path | None = None,
    settings: TrainingSettings | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
    clock: Callable[[], datetime] = now_utc,
) -> TrainingResult:
    """Train a version of the pack's model and store it; the same rows, settings and start give the same version.

    Args:
        pack: The task pack whose model is trained.
        models_root: The folder of all models.
        mode: `full` or `head`; by default that of the settings.
        rows: The rows; by default the pack's seed.
        sources: Where the training rows come from, for the manifest.
        parent: The folder of a version to start from; by default the base model.
        settings: The training settings; by default the pack's.
        cache: The folder for the features of frozen encoders.
        progress: Receives the progress.
        cancel: Called between steps; where it returns True, TrainingCancelled is raised and nothing is written.
        clock: Returns the current time.
    """
    started = time.perf_counter()
    chosen = settings or pack.spec.training
    chosen = TrainingSettings.model_validate({**chosen.model_dump(), "mode": mode or chosen.mode})
    data = TrainingData.of(pack.seed if rows is None else rows, pack.spec)
    monitor = ProgressMonitor(progress, cancel)
    monitor.check()
    with reproducible(chosen.seed, chosen.threads), TemporaryDirectory(prefix="outfox-export-") as folder:
        start = start_from(pack, parent)
        encoder = text_encoder(start.tokenizer, start.network, pack.spec.model.max_length)
        epoch = _fit(start, encoder, data, chosen, cache or models_root / CACHE, monitor)
        served = _choose_artefact(start, encoder, data, Path(folder), monitor)
        monitor.check()
        figures = {"metrics": {**served.metrics, **epoch}, "serving": served.record.model_dump()}
        origin = {"sources": [source.model_dump() for source in sources]}
        content = {**_content(start, data, chosen, clock()), **origin, **figures}
        directory, manifest = write_version(models_root, content, lambda draft: _save(draft, start, served))
    return TrainingResult(directory, manifest, manifest.metrics, time.perf_counter() - started)


def _fit(
    start: Start,
    encoder: TextEncoder,
    data: TrainingData,
    settings: TrainingSettings,
    cache: Path,
    monitor: ProgressMonitor,
) -> dict[str, Any]:
    """Train the network; return which epoch was kept, where there were epochs."""
    spec, network = data.spec, start.network
    if start.untrained and spec.kind == "classification" and can_pool(network):
        _pool(start, data, settings, encoder)

    if settings.mode == "full":
        target = _target(TorchNetwork(network, spec.kind), encoder, spec)
        examples = (
            SpanExamples.of(data, encoder, spec.model.doc_stride)
            if spec.kind == "qa"
            else LabelExamples.of(data, encoder, class_weights=settings.class_weights)
        )
        best = fine_tune(network, examples, settings, lambda: evaluate(target, data.held_out, spec), monitor)
        return {"epoch": best["epoch"]}
    if spec.kind == "qa":
        fit_span_head(network, encoder, data, spec.model.doc_stride, cache, monitor)
    else:
        fit_label_head(network, encoder, data, settings, cache, monitor)
    return {}


def _choose_artefact(
    start: Start, encoder: TextEncoder, data: TrainingData, folder: Path, monitor: ProgressMonitor
) -> ServingArtefact:
    def make_target(network: Network, reading: TextEncoder) -> Target:
        return _target(network, reading, data.spec)

    itself = make_target(TorchNetwork(start.network, data.spec.kind), encoder)
    reference = predict_held_out(itself, data, monitor, "Measuring the model on data that it has not seen")
    return choose_artefact(ExportJob(start, encoder, data, make_target, folder, monitor), reference)


def _save(draft: Path, start: Start, served: ServingArtefact) -> None:
    save_network(draft, start.network, start.tokenizer)
    if served.file:
        shutil.copyfile(served.file, draft / ONNX)
    write_probes(draft, served.probes)


def _pool(start: Start, data: TrainingData, settings: TrainingSettings, encoder: TextEncoder) -> None:
    if len(data.spec.model_input) == 1:
        # Fine-tuning learns to put the meaning of a text into the first token.
        if settings.mode == "head":
            add_mean_pooling(start.network)
    elif settings.mode == "head" or start.base == EMBEDDED:
        # The embedded encoder was trained on single sentences; larger models that know pairs are left unchanged.
        add_pair_pooling(start.network, encoder, texts_of(data.train, data.spec, encoder))


def _target(network: Network, encoder: TextEncoder, spec: TaskSpec) -> Target:
    if spec.kind == "qa":
        return TrainedSpanFinder("in training", network, encoder, spec.model_input, spec.model.doc_stride)
    return TrainedClassifier("in training", network, encoder, spec.label_names, spec.model_input)


def _content(start: Start, data: TrainingData, settings: TrainingSettings, now: datetime) -> dict[str, Any]:
    spec = data.spec
    return {
        "format": 1,
        "task": spec.name,
        "kind": spec.kind,
        "labels": list(spec.label_names),
        "model_input": list(spec.model_input),
        "max_length": spec.model.max_length,
        "doc_stride": spec.model.doc_stride,
        "longest_answer": MAX_ANSWER_TOKENS,
        "mode": settings.mode,
        "parent": start.parent,
        "base": start.base,
        "base_sha256": start.base_sha256,
        "training": settings.model_dump(mode="json"),
        **{part: record.model_dump() for part, record in data.records().items()},
        "code_version": installed_version("outfox"),
        "created_at": now.astimezone(UTC).isoformat(),
    }


@contextmanager
def reproducible(seed: int, threads: int) -> Iterator[None]:
    """Use deterministic algorithms, a seeded random generator and that many threads; restore the settings afterwards.

    Sums depend on how they are divided among threads. So the number is part of the recipe, and not that of the machine:
    on fewer processors, the threads take turns.
    """
    before = torch.are_deterministic_algorithms_enabled()
    warned_only = torch.is_deterministic_algorithms_warn_only_enabled()
    switches: Any = torch.utils.deterministic
    filled, used = switches.fill_uninitialized_memory, torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Filling every new tensor takes time, and nothing here reads uninitialised memory.
        switches.fill_uninitialized_memory = False
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warned_only)
            switches.fill_uninitialized_memory = filled
            torch.set_num_threads(used)
