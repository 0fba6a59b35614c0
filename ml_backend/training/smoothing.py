"""Smoothing: what is hard to round in a network's activations is moved into its weights before it is made int8.

A few channels of an encoder's activations are far larger than the rest, and int8 has one scale for all of them.
Dividing each channel by a factor and multiplying the weights that read it by the same changes nothing in exact
arithmetic, but leaves both easy to round (Xiao et al., SmoothQuant, 2023).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime  # type: ignore[import-untyped]
from onnx import NodeProto, helper, numpy_helper

from ml_backend.encoding import TokenArray

# How much of the difficulty goes to the weights, 0 to 1. Of 0.3 to 1.0, the mean difference of the scores from fp32's
# was smallest near 0.8 for each of three kinds of task.
SHARE = 0.8
_SMALLEST, _LARGEST = 1e-3, 1e3

Channels = npt.NDArray[np.float32]


def smooth(model: onnx.ModelProto, rows: Sequence[Mapping[str, TokenArray]]) -> onnx.ModelProto:
    """The same network, ready to be rounded; `rows` are inputs like those that it will read."""
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


def _largest(
    model: onnx.ModelProto, tensors: Sequence[str], rows: Sequence[Mapping[str, TokenArray]]
) -> dict[str, Channels]:
    """The largest value of each channel of the tensors, over all rows."""
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in tensors:
        watched.graph.output.append(helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(watched.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: dict[str, Channels] = {}
    for row in rows:
        for tensor, values in zip(tensors, session.run(list(tensors), row), strict=True):
            channels = np.abs(values.reshape(-1, values.shape[-1])).max(axis=0)
            found[tensor] = np.maximum(found.get(tensor, channels), channels)
    return found
