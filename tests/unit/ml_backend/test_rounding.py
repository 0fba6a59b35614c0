import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-untyped]

from ml_backend.training.rounding import round_weights, rounded


def a_network() -> onnx.ModelProto:
    """LimitedText' vectors, a layer with a bias, and one with a channel of zeros and one of a single value."""
    dice = np.random.default_rng(3)
    words, first, second = (dice.normal(size=size).astype(np.float32) for size in ((9, 8), (8, 6), (6, 5)))
    second[:, 1] = 0
    second[:, 2] = -0.25
    stored = {"words": words, "first": first, "bias": dice.normal(size=6).astype(np.float32), "second": second}
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["vectors"], name="gather"),
        helper.make_node("MatMul", ["vectors", "first"], ["mixed"], name="one"),
        helper.make_node("Add", ["mixed", "bias"], ["moved"], name="add"),
        helper.make_node("MatMul", ["moved", "second"], ["scores"], name="two"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["tokens"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["tokens", 5])],
        [numpy_helper.from_array(values, name) for name, values in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_network_is_written_to_the_byte_as_onnxruntime_would(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        quantize_dynamic(a_network(), tmp_path / "theirs", weight_type=QuantType.QInt8, per_channel=True)
        round_weights(a_network(), tmp_path / "ours")
    written = onnx.load_model(tmp_path / "ours")
    assert {one.name for one in written.graph.initializer} >= {"first_quantized", "second_quantized"}
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_no_weight_moves_by_more_than_half_a_step(axis: int) -> None:
    weights = np.random.default_rng(4).normal(size=(7, 5)).astype(np.float32)
    whole, scales = rounded(weights, axis)
    steps = scales[:, None] if axis == 0 else scales
    assert np.abs(whole * steps - weights).max() <= 0.5001 * scales.max()
    assert (np.abs(whole).max(axis=1 if axis == 0 else 0) == 127).all()
