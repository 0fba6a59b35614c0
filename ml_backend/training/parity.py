"""The artefact that serves a version: int8 where it agrees with PyTorch, else fp32, else PyTorch itself."""

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx
import torch
from onnx.helper import set_model_props
from torch import nn
from transformers import PreTrainedModel

from common.errors import one_line
from ml_backend.encoding import OUTPUTS, Kind, Network, TextEncoder, TokenArray
from ml_backend.errors import BackendError, ModelExportFailed, ModelParityFailed, TrainingCancelled
from ml_backend.evaluation import EvaluationResult, Metrics, evaluate_target
from ml_backend.manifest import ONNX, Serving
from ml_backend.model_files import PAD_ID
from ml_backend.targets.loading import choose_probes
from ml_backend.targets.onnx_runtime import open_onnx
from ml_backend.targets.target import LabelPrediction, Prediction, Probe, SpanPrediction, Target
from ml_backend.targets.torch_runtime import batch_of
from ml_backend.text import normalise
from ml_backend.training.data import TrainingData
from ml_backend.training.quantisation import quantise
from ml_backend.training.start import ProgressMonitor, Start
from ml_backend.verdict import exact_match, find_rule
from templates.rows import SeedRow
from templates.spec import TaskSpec

OPSET = 17
# Two rows of different lengths: an export that merged ids and mask, or fixed a size, would not fit them.
_EXAMPLES = (("An example for the exporter.",), ("Another one.",))


class _ExportableNetwork(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A network with positional inputs that returns only its scores, as the exporter needs it."""

    def __init__(self, network: PreTrainedModel, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self.inputs = inputs
        self.outputs = outputs

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output = self.network(**dict(zip(self.inputs, given, strict=True)))
        return tuple(output[name] for name in self.outputs)


def export_fp32(network: PreTrainedModel, encoder: TextEncoder, kind: Kind, path: Path) -> None:
    """Write the network as ONNX for any number of rows and tokens; the same network gives the same bytes."""
    example = batch_of(encoder, encoder.texts(list(_EXAMPLES)))
    outputs = OUTPUTS[kind]
    axes = {name: {0: "rows", 1: "tokens"} for name in (*example, *outputs)}
    if kind == "classification":
        axes["logits"] = {0: "rows"}
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            # It warns of every value that it treats as constant; the parity check finds out whether that was right.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                # In eval mode; otherwise the exporter would leave the network in training mode.
                _ExportableNetwork(network, list(example), outputs).eval(),
                tuple(example.values()),
                str(path),
                # The newer exporter's files cannot be quantised.
                dynamo=False,
                opset_version=OPSET,
                input_names=list(example),
                output_names=list(outputs),
                dynamic_axes=axes,
            )
        model = onnx.load_model(path)
        set_model_props(model, {PAD_ID: str(encoder.pad_id)})
        onnx.save_model(model, path)
    except Exception as error:
        # The exporter has no common base class for its errors.
        raise ModelExportFailed(f"{type(network).__name__} cannot be exported to ONNX ({one_line(error)})") from error


def predict_held_out(target: Target, data: TrainingData, monitor: ProgressMonitor, what: str) -> EvaluationResult:
    """Return the target's predictions for the held-out rows, with their metrics."""
    monitor.start(len(data.held_out), what)
    result = evaluate_target(target, data.held_out, data.spec, monitor.step)
    monitor.finish()
    return result


def agreement(reference: EvaluationResult, other: EvaluationResult, data: TrainingData) -> float:
    """Return the share of rows, in points, for which both predictions agree."""
    rows = zip(reference.predictions, other.predictions, data.held_out, strict=True)
    same = sum(agree(one, two, row, data.spec) for one, two, row in rows)
    return round(100 * same / len(data.held_out), 4)


def agree(one: Prediction, two: Prediction, row: SeedRow, spec: TaskSpec) -> bool:
    """Return whether the two predictions are equivalent for every verdict.

    Labels must be equal. Spans must have the same words; or the task's fooled rule must accept each as the other and
    give both the same verdict on the row's right answer.
    """
    if isinstance(one, LabelPrediction) and isinstance(two, LabelPrediction):
        return one.label == two.label
    if not (isinstance(one, SpanPrediction) and isinstance(two, SpanPrediction)):
        return False
    if exact_match(one.text, two.text):
        return True
    rule, right = find_rule(spec.fooled.rule), str(row.answer)
    equivalent = not rule(one, two.text, spec.fooled) and not rule(two, one.text, spec.fooled)
    return equivalent and rule(one, right, spec.fooled) == rule(two, right, spec.fooled)


Precision = Literal["int8", "fp32"]

# In points. fp32 differs from PyTorch in the last digits only: with other predictions, the export is wrong.
MIN_AGREEMENT = {"int8": 98.0, "fp32": 99.9}
MAX_LOSS = 1.0
MAX_REASON = 500
SMOOTHING_ROWS = 96

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServingArtefact:
    """What serves a version: its record, held-out metrics, probes, and its file (None for PyTorch)."""

    record: Serving
    metrics: Metrics
    probes: Sequence[Probe]
    file: Path | None


@dataclass(frozen=True)
class ExportJob:
    """A trained network, the rows that it is checked on, and a temporary folder for its exports."""

    start: Start
    encoder: TextEncoder
    data: TrainingData
    make_target: Callable[[Network, TextEncoder], Target]
    folder: Path
    monitor: ProgressMonitor


def choose_artefact(job: ExportJob, reference: EvaluationResult) -> ServingArtefact:
    """Return the fastest artefact that agrees with PyTorch; its record says why it is not a faster one."""
    reasons: list[str] = []
    for precision in ("int8", "fp32"):
        try:
            found = _check(job, precision, reference)
        except TrainingCancelled:
            raise
        except (BackendError, OSError) as error:
            # The record is shared, and must not disclose paths of this machine.
            reasons.append(str(error).replace(f"{job.folder}/", ""))
        else:
            return _artefact(job, precision, found, reference, reasons)
    log.warning("PyTorch will serve this version: %s", "; ".join(dict.fromkeys(reasons)))
    return _artefact(job, "fp32", None, reference, reasons)


def _check(job: ExportJob, precision: Precision, reference: EvaluationResult) -> EvaluationResult:
    """Return the predictions of an exported form, read from the files that will serve; raise if it is not fit."""
    data = job.data
    folder = _write(job, precision)
    network, encoder = open_onnx(folder, data.spec.kind, len(data.spec.label_names), data.spec.model.max_length)
    found = predict_held_out(job.make_target(network, encoder), data, job.monitor, f"checking {precision}")
    points, least = agreement(reference, found, data), MIN_AGREEMENT[precision]
    if points < least:
        rows = len(data.held_out)
        raise ModelParityFailed(
            f"{precision} agrees with PyTorch on {points:.1f} % of {rows} rows; {least:g} % are required"
        )
    if reference.points - found.points > MAX_LOSS:
        lost = f"{reference.points:.1f} to {found.points:.1f}"
        raise ModelParityFailed(f"{precision} drops from {lost} points; a loss of {MAX_LOSS:g} is allowed")
    return found


def _write(job: ExportJob, precision: Precision) -> Path:
    folder, exported = job.folder / precision, job.folder / ONNX
    folder.mkdir()
    job.start.tokenizer.save_pretrained(folder)
    if not exported.exists():
        export_fp32(job.start.network, job.encoder, job.data.spec.kind, exported)
    if precision == "int8":
        quantise(exported, folder / ONNX, _smoothing_inputs(job))
    else:
        exported.rename(folder / ONNX)
    return folder


def _smoothing_inputs(job: ExportJob) -> list[Mapping[str, TokenArray]]:
    """Return evenly spaced training rows as network inputs."""
    rows, names = job.data.train, job.data.spec.model_input
    chosen = rows[:: max(1, len(rows) // SMOOTHING_ROWS)][:SMOOTHING_ROWS]
    texts = [tuple(normalise(row.fields[name]) for name in names) for row in chosen]
    return [job.encoder.arrays([one]) for one in job.encoder.texts(texts)]


def _artefact(
    job: ExportJob,
    precision: Precision,
    found: EvaluationResult | None,
    reference: EvaluationResult,
    reasons: list[str],
) -> ServingArtefact:
    shown = found or reference
    record = Serving(
        runtime="onnx" if found else "torch",
        precision=precision,
        agreement=agreement(reference, shown, job.data),
        rows=len(job.data.held_out),
        headline=shown.points,
        torch_headline=reference.points,
        why="; ".join(dict.fromkeys(reasons))[:MAX_REASON] or None,
    )
    rows, names = [row.fields for row in job.data.held_out], job.data.spec.model_input
    file = job.folder / precision / ONNX if found else None
    return ServingArtefact(record, shown.metrics, choose_probes(rows, shown.predictions, names), file)
