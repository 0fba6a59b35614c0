"""The artefact that serves a version: int8 where it agrees with PyTorch, else fp32, else PyTorch itself.

An int8 form that does not agree is tried again with its most sensitive products in fp32. Forms are judged on the
held-out rows, each row by both networks. Few rows leave room for chance, so a form fails only if the 95 % interval of
its agreement ends below the limit, or that of its loss begins above it.
"""

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

import onnx
import torch
from onnx.helper import set_model_props
from torch import nn
from transformers import PreTrainedModel

from common.errors import one_line
from common.text import count
from ml_backend.encoding import OUTPUTS, Kind, Network, TextEncoder, TokenArray
from ml_backend.errors import BackendError, ModelExportFailed, ModelParityFailed, TrainingCancelled
from ml_backend.evaluation import EvaluationResult, Metrics, evaluate_target, row_scores
from ml_backend.manifest import ONNX, Serving
from ml_backend.model_files import PAD_ID
from ml_backend.targets.loading import choose_probes
from ml_backend.targets.onnx_runtime import open_onnx
from ml_backend.targets.target import LabelPrediction, Prediction, Probe, SpanPrediction, Target
from ml_backend.targets.torch_runtime import batch_of
from ml_backend.text import normalise
from ml_backend.training.data import TrainingData
from ml_backend.training.quantisation import Quantiser
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


@dataclass(frozen=True)
class Form:
    """A form of the network: its precision, and how many products of an int8 form stay in fp32."""

    precision: Precision
    fp32_products: int = 0

    def __str__(self) -> str:
        kept = f" with {count(self.fp32_products, 'product')} in fp32" if self.fp32_products else ""
        return f"{self.precision}{kept}"


# Fastest first. A network of six layers has 36 products with a constant weight.
FORMS = (Form("int8"), Form("int8", 2), Form("int8", 6), Form("int8", 12), Form("fp32"))
# In points. fp32 differs from PyTorch in the last digits only: with other predictions, the export is wrong.
MIN_AGREEMENT = {"int8": 98.0, "fp32": 99.9}
MAX_LOSS = 1.0
MAX_REASON = 500
SMOOTHING_ROWS = 96
# Of a 95 % interval.
Z = 1.96

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

    @cached_property
    def exported(self) -> Path:
        """The network in fp32, exported on first use."""
        path = self.folder / ONNX
        export_fp32(self.start.network, self.encoder, self.data.spec.kind, path)
        return path

    @cached_property
    def quantiser(self) -> Quantiser:
        """What writes int8 forms of the network."""
        return Quantiser(self.exported, _smoothing_inputs(self))


def choose_artefact(job: ExportJob, reference: EvaluationResult) -> ServingArtefact:
    """Return the fastest artefact that agrees with PyTorch; its record says why it is not a faster one."""
    reasons: list[str] = []
    impossible: set[Precision] = set()
    for form in FORMS:
        if form.precision in impossible:
            continue
        try:
            found = _check(job, form, reference)
        except TrainingCancelled:
            raise
        except (BackendError, OSError) as error:
            if isinstance(error, ModelExportFailed):
                impossible.add(form.precision)
            # The record is shared, and must not disclose paths of this machine.
            reasons.append(str(error).replace(f"{job.folder}/", ""))
        else:
            return _artefact(job, form, found, reference, reasons)
    log.warning("PyTorch will serve this version: %s", "; ".join(dict.fromkeys(reasons)))
    return _artefact(job, FORMS[-1], None, reference, reasons)


def _check(job: ExportJob, form: Form, reference: EvaluationResult) -> EvaluationResult:
    """Return the predictions of an exported form, read from the files that will serve; raise if it is not fit."""
    data = job.data
    folder = _write(job, form)
    network, encoder = open_onnx(folder, data.spec.kind, len(data.spec.label_names), data.spec.model.max_length)
    found = predict_held_out(
        job.make_target(network, encoder),
        data,
        job.monitor,
        f"Checking that the model answers the same when it serves ({form})",
    )
    rows = len(data.held_out)
    points, least = agreement(reference, found, data), MIN_AGREEMENT[form.precision]
    # An fp32 form has no room for chance: it computes the same.
    if (points if form.precision == "fp32" else highest_share(points, rows)) < least:
        text = f"{form} agrees with PyTorch on {points:.1f} % of {rows} rows; {least:g} % are required"
        raise ModelParityFailed(text)
    pairs = (row_scores(data.held_out, one.predictions, data.spec) for one in (reference, found))
    if lowest_loss(*pairs) > MAX_LOSS:
        lost = f"{reference.points:.1f} to {found.points:.1f}"
        raise ModelParityFailed(f"{form} drops from {lost} points; a loss of {MAX_LOSS:g} is allowed")
    return found


def highest_share(points: float, rows: int) -> float:
    """Return the upper end of the 95 % Wilson interval of a share, in points."""
    share, square = points / 100, Z**2
    middle = share + square / (2 * rows)
    width = Z * sqrt(share * (1 - share) / rows + square / (4 * rows**2))
    return 100 * (middle + width) / (1 + square / rows)


def lowest_loss(reference: Sequence[float], other: Sequence[float]) -> float:
    """Return the lower end of the 95 % interval of the mean loss over paired rows, in points."""
    losses = [100 * (one - two) for one, two in zip(reference, other, strict=True)]
    spread = stdev(losses) if len(losses) > 1 else 0.0
    return fmean(losses) - Z * spread / sqrt(len(losses))


def _write(job: ExportJob, form: Form) -> Path:
    folder = job.folder / str(form)
    folder.mkdir()
    job.start.tokenizer.save_pretrained(folder)
    if form.precision == "int8":
        job.quantiser.write(folder / ONNX, products_in_fp32=form.fp32_products)
    else:
        job.exported.rename(folder / ONNX)
    return folder


def _smoothing_inputs(job: ExportJob) -> list[Mapping[str, TokenArray]]:
    """Return evenly spaced training rows as network inputs."""
    rows, names = job.data.train, job.data.spec.model_input
    chosen = rows[:: max(1, len(rows) // SMOOTHING_ROWS)][:SMOOTHING_ROWS]
    texts = [tuple(normalise(row.fields[name]) for name in names) for row in chosen]
    return [job.encoder.arrays([one]) for one in job.encoder.texts(texts)]


def _artefact(
    job: ExportJob,
    form: Form,
    found: EvaluationResult | None,
    reference: EvaluationResult,
    reasons: list[str],
) -> ServingArtefact:
    shown = found or reference
    record = Serving(
        runtime="onnx" if found else "torch",
        precision=form.precision,
        agreement=agreement(reference, shown, job.data),
        rows=len(job.data.held_out),
        headline=shown.points,
        torch_headline=reference.points,
        fp32_products=form.fp32_products,
        why=None if form.precision == "int8" else "; ".join(dict.fromkeys(reasons))[:MAX_REASON] or None,
    )
    rows, names = [row.fields for row in job.data.held_out], job.data.spec.model_input
    file = job.folder / str(form) / ONNX if found else None
    return ServingArtefact(record, shown.metrics, choose_probes(rows, shown.predictions, names), file)
