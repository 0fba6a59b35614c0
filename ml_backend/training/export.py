"""A trained network as ONNX files: fp32 as it is, and int8 from that."""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
import torch
from onnx.helper import set_model_props
from torch import nn
from transformers import PreTrainedModel

from common.errors import one_line
from ml_backend.encoding import OUTPUTS, Kind, TextEncoder, TokenArray
from ml_backend.errors import ModelError
from ml_backend.model_files import PAD_ID
from ml_backend.targets.torch_runtime import batch_of
from ml_backend.training.rounding import round_weights
from ml_backend.training.smoothing import smooth

OPSET = 17
# Two rows of different lengths: an export that merged ids and mask, or fixed a size, would not fit them.
_EXAMPLES = (("An example for the exporter.",), ("Another one.",))


class _Answers(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A network that takes its inputs by place and gives its scores alone, which is what an export needs."""

    def __init__(self, network: PreTrainedModel, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self.inputs = inputs
        self.outputs = outputs

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output = self.network(**dict(zip(self.inputs, given, strict=True)))
        return tuple(output[name] for name in self.outputs)


def export_fp32(network: PreTrainedModel, encoder: TextEncoder, kind: Kind, path: Path) -> None:
    """Write the network as ONNX, for any number of rows and tokens; the same network gives the same bytes."""
    example = batch_of(encoder, encoder.texts(list(_EXAMPLES)))
    outputs = OUTPUTS[kind]
    axes = {name: {0: "rows", 1: "tokens"} for name in (*example, *outputs)}
    if kind == "classification":
        axes["logits"] = {0: "rows"}
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            # It warns of everything that it takes for constant; the parity check tells whether it was.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                # In eval mode, or the exporter would leave the network in training mode.
                _Answers(network, list(example), outputs).eval(),
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
        # An exporter fails in as many ways as there are networks.
        raise ModelError(f"{type(network).__name__} cannot be exported to ONNX ({one_line(error)})") from error


def quantise(fp32: Path, int8: Path, rows: Sequence[Mapping[str, TokenArray]]) -> None:
    """Write an int8 form of an exported network; scales of what flows through it are taken as it runs.

    `rows` are inputs like those that it will read, by which it is smoothed first.
    """
    try:
        smoothed = smooth(onnx.load_model(fp32), rows)
        with _without_root_log():
            # A scale for each channel costs nothing here, and keeps answers closer to the original's.
            round_weights(smoothed, int8)
    except Exception as error:
        # It fails in as many ways as there are networks.
        raise ModelError(f"the network cannot be made int8 ({one_line(error)})") from error


@contextmanager
def _without_root_log() -> Iterator[None]:
    """Nothing is written to the root logger itself, where the quantiser tells of every tensor; others go on."""
    root, silent = logging.getLogger(), logging.NullHandler()

    def nothing(_record: logging.LogRecord) -> bool:
        return False

    # Without any handler, the first line would make logging set one up for the whole program.
    root.addHandler(silent)
    root.addFilter(nothing)
    try:
        yield
    finally:
        root.removeFilter(nothing)
        root.removeHandler(silent)
