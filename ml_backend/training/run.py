"""Training a model version, from a pack's rows to files on disk."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ml_backend.artefact import write_version
from ml_backend.checkpoint import EMBEDDED
from ml_backend.encoding import Network, TextEncoder
from ml_backend.evaluation import Metrics, evaluate
from ml_backend.manifest import ONNX, DataSource, Manifest
from ml_backend.targets.probes import write_probes
from ml_backend.targets.target import Target
from ml_backend.targets.torch_runtime import TorchNetwork, save_network, text_encoder
from ml_backend.targets.trained import MAX_ANSWER_TOKENS, TrainedClassifier, TrainedSpanFinder
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import LabelExamples, SpanExamples, texts_of
from ml_backend.training.full import fine_tune
from ml_backend.training.head import fit_label_head
from ml_backend.training.parity import measure
from ml_backend.training.pooling import add_mean_pooling, add_pair_pooling, can_pool
from ml_backend.training.progress import Progress, Watch
from ml_backend.training.reproducible import reproducible
from ml_backend.training.servable import Exporting, Servable, make_servable
from ml_backend.training.span_head import fit_span_head
from ml_backend.training.start import Start, start_from
from templates import Pack, SeedRow
from templates.spec import TaskSpec, TrainingSettings

# In the models' folder, where listings do not look.
CACHE = ".cache"


@dataclass(frozen=True)
class Trained:
    """A finished training: the version's folder, its manifest, its held-out figures, and how long it took."""

    directory: Path
    manifest: Manifest
    metrics: Metrics
    seconds: float


def now_utc() -> datetime:
    """The time, as manifests write it."""
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
) -> Trained:
    """Train a version of the pack's model and store it; the same rows, settings and start give the same version.

    `rows` is the pack's seed if not given, and `sources` tells where those to train on come from; `settings` are the
    pack's and `mode` theirs unless given; `parent` is the folder of a version to start from. Whenever `cancel` answers
    True, TrainingCancelled is raised and nothing is written.
    """
    started = time.perf_counter()
    chosen = settings or pack.spec.training
    chosen = TrainingSettings.model_validate({**chosen.model_dump(), "mode": mode or chosen.mode})
    data = TrainingData.of(pack.seed if rows is None else rows, pack.spec)
    watch = Watch(progress, cancel)
    watch.check()
    with reproducible(chosen.seed):
        start = start_from(pack, parent)
        encoder = text_encoder(start.tokenizer, start.network, pack.spec.model.max_length)
        epoch = _fit(start, encoder, data, chosen, cache or models_root / CACHE, watch)
    with TemporaryDirectory(prefix="outfox-export-") as folder:
        served = _servable(start, encoder, data, Path(folder), watch)
        watch.check()
        figures = {"metrics": {**served.metrics, **epoch}, "serving": served.record.model_dump()}
        told = {"sources": [source.model_dump() for source in sources]}
        content = {**_content(start, data, chosen, clock()), **told, **figures}
        directory, manifest = write_version(models_root, content, lambda draft: _save(draft, start, served))
    return Trained(directory, manifest, manifest.metrics, time.perf_counter() - started)


def _fit(
    start: Start, encoder: TextEncoder, data: TrainingData, settings: TrainingSettings, cache: Path, watch: Watch
) -> dict[str, Any]:
    """Trains the network; which epoch was kept, where there were epochs."""
    spec, network = data.spec, start.network
    if start.untrained and spec.kind == "classification" and can_pool(network):
        _pool(start, data, settings, encoder)

    if settings.mode == "full":
        predictor = _predictor(TorchNetwork(network, spec.kind), encoder, spec)
        examples = (
            SpanExamples.of(data, encoder, spec.model.doc_stride)
            if spec.kind == "qa"
            else LabelExamples.of(data, encoder, class_weights=settings.class_weights)
        )
        best = fine_tune(network, examples, settings, lambda: evaluate(predictor, data.held_out, spec), watch)
        return {"epoch": best["epoch"]}
    if spec.kind == "qa":
        fit_span_head(network, encoder, data, spec.model.doc_stride, cache, watch)
    else:
        fit_label_head(network, encoder, data, settings, cache, watch)
    return {}


def _servable(start: Start, encoder: TextEncoder, data: TrainingData, folder: Path, watch: Watch) -> Servable:
    def predictor(network: Network, reading: TextEncoder) -> Target:
        return _predictor(network, reading, data.spec)

    itself = predictor(TorchNetwork(start.network, data.spec.kind), encoder)
    reference = measure(itself, data, watch, "measuring")
    return make_servable(Exporting(start, encoder, data, predictor, folder, watch), reference)


def _save(draft: Path, start: Start, served: Servable) -> None:
    save_network(draft, start.network, start.tokenizer)
    if served.file:
        shutil.copyfile(served.file, draft / ONNX)
    write_probes(draft, served.probes)


def _pool(start: Start, data: TrainingData, settings: TrainingSettings, encoder: TextEncoder) -> None:
    if len(data.spec.model_input) == 1:
        # A network that is trained whole learns by itself to put the text's meaning into the first token.
        if settings.mode == "head":
            add_mean_pooling(start.network)
    elif settings.mode == "head" or start.base == EMBEDDED:
        # The embedded encoder knows single sentences only; larger models that know pairs are better left alone.
        add_pair_pooling(start.network, encoder, texts_of(data.train, data.spec, encoder))


def _predictor(network: Network, encoder: TextEncoder, spec: TaskSpec) -> Target:
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
