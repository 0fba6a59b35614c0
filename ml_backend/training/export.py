"""Export of a trained network to ONNX in fp32."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import onnx
import torch
from onnx.helper import set_model_props
from torch import nn
from transformers import PreTrainedModel

from common.errors import one_line
from ml_backend.encoding import OUTPUTS, Kind, TextEncoder
from ml_backend.errors import ModelExportFailed
from ml_backend.model_files import PAD_ID
from ml_backend.targets.torch_runtime import batch_of

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
