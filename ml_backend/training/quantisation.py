"""Quantisation to int8: smooth the activations, then round the weights.

A few channels of an encoder's activations are far larger than the rest, and int8 has one scale for all of them.
Dividing each channel by a factor and multiplying the weights that read it by the same factor changes nothing in exact
arithmetic, but makes both easier to round (Xiao et al., SmoothQuant, 2023). Rounding follows onnxruntime's
quantize_dynamic, but handles all channels of a weight at once: its loop over 24,000 channels takes most of its time.

Weights have 7 bits. Processors without VNNI add two products of an activation (0 to 255) and a weight in 16 bits, and
saturate above 32,767: 2 x 255 x 64 stays below. So every processor computes the same integers, and a version gives the
same answers wherever it is served.

A few products of a network lose more than all others together. Those that a rounded network cannot do without stay in
fp32: each product is rounded on its own, and ranked by how far the scores move.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime  # type: ignore[import-untyped]
from onnx import NodeProto, helper, numpy_helper
from onnxruntime.quantization import QuantType  # type: ignore[import-untyped]
from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer  # type: ignore[import-untyped]
from onnxruntime.quantization.quant_utils import (  # type: ignore[import-untyped]
    QuantizationMode,
    save_and_reload_model_with_shape_infer,
)
from onnxruntime.quantization.quantize import update_opset_version  # type: ignore[import-untyped]
from onnxruntime.quantization.registry import IntegerOpsRegistry  # type: ignore[import-untyped]

from common.errors import one_line
from ml_backend.encoding import TokenArray
from ml_backend.errors import ModelExportFailed

# How much of the difficulty moves to the weights, 0 to 1. Of 0.3 to 1.0, the mean difference from fp32's scores was
# smallest near 0.8 for each of three kinds of task.
SHARE = 0.8
_SMALLEST, _LARGEST = 1e-3, 1e3
# With 24 rows, the same two products of each pack's network are the most sensitive, and five or six of the same six.
RANKING_ROWS = 12

Channels = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Quantiser:
    """Writes int8 forms of an exported network, with dynamic scales for its activations.

    `rows` are inputs like those that it will read; they set the smoothing factors and rank the products.
    """

    fp32: Path
    rows: Sequence[Mapping[str, TokenArray]]

    def write(self, int8: Path, *, products_in_fp32: int = 0) -> None:
        """Write the network in int8, except for the products that are most sensitive to rounding."""
        with _export_errors():
            kept = self._ranked[:products_in_fp32] if products_in_fp32 else []
            round_weights(self._smoothed, int8, keep=kept)

    @cached_property
    def _smoothed(self) -> onnx.ModelProto:
        return smooth(onnx.load_model(self.fp32), self.rows)

    @cached_property
    def _ranked(self) -> list[str]:
        return rank_products(self._smoothed, self.rows[:: max(1, len(self.rows) // RANKING_ROWS)])


@contextmanager
def _export_errors() -> Iterator[None]:
    try:
        with _quiet_root_logger():
            yield
    except Exception as error:
        # The quantiser has no common base class for its errors.
        raise ModelExportFailed(f"the network cannot be converted to int8 ({one_line(error)})") from error


def smooth(model: onnx.ModelProto, rows: Sequence[Mapping[str, TokenArray]]) -> onnx.ModelProto:
    """Return an equivalent network that is easier to round; `rows` are inputs like those that it will read."""
    smoothed: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    graph = smoothed.graph
    weights = {one.name: one for one in graph.initializer}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            readers.setdefault(node.input[0], []).append(node)
    largest = _largest(smoothed, list(readers), rows)
    before: dict[str, NodeProto] = {}
    for tensor, nodes in readers.items():
        matrices = [numpy_helper.to_array(weights[node.input[1]]) for node in nodes]
        factors = _factors(largest[tensor], np.max([np.abs(one).max(axis=1) for one in matrices], axis=0))
        scale, divided = f"{tensor}/factors", f"{tensor}/smoothed"
        graph.initializer.append(numpy_helper.from_array(1 / factors, scale))
        before[nodes[0].name] = helper.make_node("Mul", [tensor, scale], [divided], name=f"{divided}/Mul")
        for node, matrix in zip(nodes, matrices, strict=True):
            weights[node.input[1]].CopyFrom(numpy_helper.from_array(matrix * factors[:, None], node.input[1]))
            node.input[0] = divided
    ordered = [one for node in graph.node for one in (before.get(node.name), node) if one is not None]
    del graph.node[:]
    graph.node.extend(ordered)
    return smoothed


def _factors(activations: Channels, weights: Channels) -> Channels:
    tiny = np.float32(1e-5)
    wanted = np.maximum(activations, tiny) ** SHARE / np.maximum(weights, tiny) ** (1 - SHARE)
    return np.clip(wanted, _SMALLEST, _LARGEST).astype(np.float32)


def rank_products(model: onnx.ModelProto, rows: Sequence[Mapping[str, TokenArray]]) -> list[str]:
    """Return the names of the products with a constant weight, most sensitive first.

    A product is measured by the mean squared change of the network's scores if only this product is rounded.
    """
    switched, switches = _switched(model)
    session = _session(switched.SerializeToString())

    def scores(rounded_product: str | None) -> Channels:
        chosen = {switch: np.array(name == rounded_product) for name, switch in switches.items()}
        return np.concatenate([values.ravel() for row in rows for values in session.run(None, {**row, **chosen})])

    exact = scores(None)
    moved = {name: float(np.mean((scores(name) - exact) ** 2)) for name in switches}
    return sorted(moved, key=lambda name: (-moved[name], name))


def _switched(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Return a network that rounds each product if its switch, an extra input, is on; and the switches by product.

    One network with switches is loaded once. A network for each product would be written and loaded as often as there
    are products, which takes longer than a small training.
    """
    switched: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    graph = switched.graph
    weights = {one.name: one for one in graph.initializer}
    switches: dict[str, str] = {}
    for node in graph.node:
        if node.op_type != "MatMul" or node.input[1] not in weights:
            continue
        switch = switches[node.name] = f"{node.name}/is_rounded"
        graph.input.append(helper.make_tensor_value_info(switch, onnx.TensorProto.BOOL, []))
        exact = NodeProto.FromString(node.SerializeToString())
        exact.output[0] = f"{node.name}/exact"
        branches = {
            "then_branch": _rounded_product(node, numpy_helper.to_array(weights[node.input[1]])),
            "else_branch": _branch([exact]),
        }
        node.CopyFrom(helper.make_node("If", [switch], list(node.output), name=node.name, **branches))
    return switched, switches


def _rounded_product(node: NodeProto, weight: npt.NDArray[np.float32]) -> onnx.GraphProto:
    """Return the product as its int8 form computes it, in floating point."""
    whole, scales = rounded(weight, axis=1)
    of = {
        part: f"{node.name}/{part}" for part in ("whole", "scales", "weight", "int8", "scale", "zero", "given", "out")
    }
    nodes = [
        helper.make_node("DequantizeLinear", [of["whole"], of["scales"]], [of["weight"]], axis=1),
        helper.make_node("DynamicQuantizeLinear", [node.input[0]], [of["int8"], of["scale"], of["zero"]]),
        helper.make_node("DequantizeLinear", [of["int8"], of["scale"], of["zero"]], [of["given"]]),
        helper.make_node("MatMul", [of["given"], of["weight"]], [of["out"]]),
    ]
    constants = [numpy_helper.from_array(whole, of["whole"]), numpy_helper.from_array(scales, of["scales"])]
    return _branch(nodes, constants)


def _branch(nodes: Sequence[NodeProto], constants: Sequence[onnx.TensorProto] = ()) -> onnx.GraphProto:
    """Return a branch of an If node; its output is that of its last node."""
    name = nodes[-1].output[0]
    output = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    return helper.make_graph(list(nodes), name, [], [output], list(constants))


def _session(model: str | bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _largest(
    model: onnx.ModelProto, tensors: Sequence[str], rows: Sequence[Mapping[str, TokenArray]]
) -> dict[str, Channels]:
    """Return the largest absolute value of each channel of the tensors over all rows."""
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in tensors:
        watched.graph.output.append(helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, None))
    session = _session(watched.SerializeToString())
    found: dict[str, Channels] = {}
    for row in rows:
        for tensor, values in zip(tensors, session.run(list(tensors), row), strict=True):
            channels = np.abs(values.reshape(-1, values.shape[-1])).max(axis=0)
            found[tensor] = np.maximum(found.get(tensor, channels), channels)
    return found


# With 7 bits; see above.
LARGEST = 64


def round_weights(model: onnx.ModelProto, path: Path, *, keep: Sequence[str] = ()) -> None:
    """Write the network in int8 with a scale per channel, byte for byte as quantize_dynamic would.

    The nodes in `keep` stay in fp32.
    """
    quantizer = _Quantizer(
        update_opset_version(save_and_reload_model_with_shape_infer(model), QuantType.QInt8),
        per_channel=True,
        reduce_range=True,
        mode=QuantizationMode.IntegerOps,
        static=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QUInt8,
        tensors_range=None,
        nodes_to_quantize=[],
        nodes_to_exclude=list(keep),
        op_types_to_quantize=list(IntegerOpsRegistry),
        extra_options={"MatMulConstBOnly": True},
    )
    quantizer.quantize_model()
    quantizer.model.save_model_to_file(path, use_external_data_format=False)


def rounded(weights: npt.NDArray[np.float32], axis: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return the weights as integers from -64 to 64, and the scale of each channel along the axis."""
    others = tuple(place for place in range(weights.ndim) if place != axis % weights.ndim)
    largest = np.abs(weights).max(axis=others, keepdims=True).astype(np.float64)
    scales = 2 * largest / (2 * LARGEST)
    # A channel of zeros has no scale.
    scales = np.where(scales < np.finfo(weights.dtype).tiny, 1.0, scales).astype(weights.dtype)
    whole = np.clip((weights / scales).round(), -LARGEST, LARGEST).astype(np.int8)
    return whole, scales.reshape(-1)


class _Quantizer(ONNXQuantizer):  # type: ignore[misc]
    def quantize_weight_per_channel_impl(
        self, weight_name: str, weight_type: int, channel_axis: int, *_more: Any
    ) -> tuple[str, str, str]:
        stored = self.model.get_initializer(weight_name)
        whole, scales = rounded(numpy_helper.to_array(stored), channel_axis)
        names = f"{weight_name}_quantized", f"{weight_name}_zero_point", f"{weight_name}_scale"
        self.model.initializer_extend(
            [
                onnx.helper.make_tensor(names[2], stored.data_type, scales.shape, scales.tolist()),
                onnx.helper.make_tensor(names[1], weight_type, scales.shape, [0] * len(scales)),
                numpy_helper.from_array(whole, names[0]),
            ]
        )
        return names


@contextmanager
def _quiet_root_logger() -> Iterator[None]:
    """Silence the root logger, to which the quantiser writes a line for every tensor."""
    root, silent = logging.getLogger(), logging.NullHandler()

    def nothing(_record: logging.LogRecord) -> bool:
        return False

    # Without a handler, the first line would make logging configure itself for the whole program.
    root.addHandler(silent)
    root.addFilter(nothing)
    try:
        yield
    finally:
        root.removeFilter(nothing)
        root.removeHandler(silent)
