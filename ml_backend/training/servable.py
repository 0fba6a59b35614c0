"""What will answer for a trained network: int8 where it is as good as PyTorch, else fp32, else PyTorch itself."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ml_backend.encoding import Network, TextEncoder, TokenArray
from ml_backend.errors import BackendError, ModelError, TrainingCancelled
from ml_backend.evaluation import Metrics
from ml_backend.manifest import ONNX, Serving
from ml_backend.targets.onnx_runtime import open_onnx
from ml_backend.targets.probes import choose_probes
from ml_backend.targets.target import Probe, Target
from ml_backend.text import normalise
from ml_backend.training.data import TrainingData
from ml_backend.training.export import export_fp32, quantise
from ml_backend.training.parity import Measured, agreement, measure
from ml_backend.training.progress import Watch
from ml_backend.training.start import Start

Precision = Literal["int8", "fp32"]

# In points. fp32 differs from PyTorch in the last digits only: if it says something else, the export is wrong.
LEAST_AGREEMENT = {"int8": 98.0, "fp32": 99.9}
MOST_LOST = 1.0
LONGEST_WHY = 500
ROWS_TO_SMOOTH_BY = 96

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Servable:
    """What serves a version: its record, its held-out figures, its probes, and its file where it is not PyTorch."""

    record: Serving
    metrics: Metrics
    probes: Sequence[Probe]
    file: Path | None


@dataclass(frozen=True)
class Exporting:
    """A trained network, the rows that it is checked on, and a folder for its other forms, the caller's to remove."""

    start: Start
    encoder: TextEncoder
    data: TrainingData
    predictor: Callable[[Network, TextEncoder], Target]
    folder: Path
    watch: Watch


def make_servable(exporting: Exporting, reference: Measured) -> Servable:
    """The fastest form whose answers may stand for PyTorch's; its record says why it is not a faster one."""
    reasons: list[str] = []
    for precision in ("int8", "fp32"):
        try:
            found = _checked(exporting, precision, reference)
        except TrainingCancelled:
            raise
        except (BackendError, OSError) as error:
            # A record goes around, and says nothing about the machine that it was made on.
            reasons.append(str(error).replace(f"{exporting.folder}/", ""))
        else:
            return _servable(exporting, precision, found, reference, reasons)
    log.warning("PyTorch will serve this version: %s", "; ".join(dict.fromkeys(reasons)))
    return _servable(exporting, "fp32", None, reference, reasons)


def _checked(exporting: Exporting, precision: Precision, reference: Measured) -> Measured:
    """What a form says to the held-out rows, read from the very files that will serve; ModelError if it is not fit."""
    data = exporting.data
    folder = _write(exporting, precision)
    network, encoder = open_onnx(folder, data.spec.kind, len(data.spec.label_names), data.spec.model.max_length)
    found = measure(exporting.predictor(network, encoder), data, exporting.watch, f"checking {precision}")
    points, least = agreement(reference, found, data), LEAST_AGREEMENT[precision]
    if points < least:
        rows = len(data.held_out)
        raise ModelError(f"{precision} agrees with PyTorch on {points:.1f} % of {rows} rows, {least:g} are needed")
    if reference.headline - found.headline > MOST_LOST:
        lost = f"{reference.headline:.1f} to {found.headline:.1f}"
        raise ModelError(f"{precision} falls from {lost} points, more than {MOST_LOST:g} is too much")
    return found


def _write(exporting: Exporting, precision: Precision) -> Path:
    folder, exported = exporting.folder / precision, exporting.folder / ONNX
    folder.mkdir()
    exporting.start.tokenizer.save_pretrained(folder)
    if not exported.exists():
        export_fp32(exporting.start.network, exporting.encoder, exporting.data.spec.kind, exported)
    if precision == "int8":
        quantise(exported, folder / ONNX, _read_before(exporting))
    else:
        exported.rename(folder / ONNX)
    return folder


def _read_before(exporting: Exporting) -> list[Mapping[str, TokenArray]]:
    """Some training rows as the network reads them, from all over."""
    rows, names = exporting.data.train, exporting.data.spec.model_input
    chosen = rows[:: max(1, len(rows) // ROWS_TO_SMOOTH_BY)][:ROWS_TO_SMOOTH_BY]
    texts = [tuple(normalise(row.fields[name]) for name in names) for row in chosen]
    return [exporting.encoder.arrays([one]) for one in exporting.encoder.texts(texts)]


def _servable(
    exporting: Exporting, precision: Precision, found: Measured | None, reference: Measured, reasons: list[str]
) -> Servable:
    shown = found or reference
    record = Serving(
        runtime="onnx" if found else "torch",
        precision=precision,
        agreement=agreement(reference, shown, exporting.data),
        rows=len(exporting.data.held_out),
        headline=shown.headline,
        torch_headline=reference.headline,
        why="; ".join(dict.fromkeys(reasons))[:LONGEST_WHY] or None,
    )
    rows, names = [row.fields for row in exporting.data.held_out], exporting.data.spec.model_input
    file = exporting.folder / precision / ONNX if found else None
    return Servable(record, shown.metrics, choose_probes(rows, shown.answers, names), file)
