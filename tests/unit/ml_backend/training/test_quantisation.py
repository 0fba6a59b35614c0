import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime  # type: ignore[import-untyped]
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-untyped]

from ml_backend.training.quantisation import rank_products, round_weights, rounded, smooth


def a_network() -> onnx.ModelProto:
    """Word vectors, a layer with a bias, and one with a channel of zeros and one of a single value."""
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


def test_a_network_is_written_byte_for_byte_as_onnxruntime_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        quantize_dynamic(
            a_network(), tmp_path / "theirs", weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
        )
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
    assert (np.abs(whole).max(axis=1 if axis == 0 else 0) == 64).all()


WIDTH = 32
Array = npt.NDArray[np.float32]


@pytest.fixture
def network() -> onnx.ModelProto:
    """Ids become vectors, of which two channels are a hundred times larger; two matrices read them."""
    random = np.random.default_rng(5)
    table = random.normal(size=(50, WIDTH)).astype(np.float32)
    table[:, [3, 17]] *= 100
    matrices = [random.normal(size=(WIDTH, 8)).astype(np.float32) for _ in range(2)]
    for matrix in matrices:
        matrix[[3, 17]] /= 100
    initializers = [numpy_helper.from_array(table, "table")]
    initializers += [numpy_helper.from_array(one, f"w{place}") for place, one in enumerate(matrices)]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"], name="gather"),
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("MatMul", ["x", "w1"], ["b"], name="second"),
        helper.make_node("Add", ["a", "b"], ["scores"], name="add"),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["rows", "tokens"])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["rows", "tokens", 8])
    graph = helper.make_graph(nodes, "odd", [ids], [scores], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


ROWS = [{"ids": np.arange(first, first + 10, dtype=np.int64)[None]} for first in range(0, 40, 10)]


def scores(model: onnx.ModelProto | Path) -> Array:
    content = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, row)[0] for row in ROWS])


def in_int8(model: onnx.ModelProto, path: Path) -> Array:
    quantize_dynamic(model, path, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul"])
    return scores(path)


def test_a_smoothed_network_gives_the_same_scores_and_the_original_is_unchanged(network: onnx.ModelProto) -> None:
    before = network.SerializeToString()
    smoothed = smooth(network, ROWS)
    onnx.checker.check_model(smoothed)
    assert np.allclose(scores(smoothed), scores(network), rtol=1e-4, atol=1e-4)
    assert network.SerializeToString() == before
    assert [node.op_type for node in smoothed.graph.node].count("Mul") == 1, "what reads the same is divided once"


def test_it_is_rounded_with_a_small_part_of_the_error(network: onnx.ModelProto, tmp_path: Path) -> None:
    exact = scores(network)
    plain = np.abs(in_int8(network, tmp_path / "plain.onnx") - exact).mean()
    smoothed = np.abs(in_int8(smooth(network, ROWS), tmp_path / "smooth.onnx") - exact).mean()
    assert smoothed < plain / 5


def test_smoothing_twice_the_same_gives_the_same_bytes(network: onnx.ModelProto) -> None:
    assert smooth(network, ROWS).SerializeToString() == smooth(network, ROWS).SerializeToString()


def pairwise_16_bit(activations: npt.NDArray[np.int64], weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Multiply as processors without VNNI do: two neighbouring products are added in 16 bits, with saturation."""
    pairs = activations[:, 0::2, None] * weights[None, 0::2] + activations[:, 1::2, None] * weights[None, 1::2]
    found: npt.NDArray[np.int64] = np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=1)
    return found


def test_no_product_saturates_on_a_processor_without_vnni() -> None:
    weights = np.random.default_rng(6).normal(size=(WIDTH, 8)).astype(np.float32)
    weights[:2] = 9.0
    whole = rounded(weights, axis=1)[0].astype(np.int64)
    activations = np.full((3, WIDTH), 255)
    assert (pairwise_16_bit(activations, whole) == activations @ whole).all()
    with_8_bits = np.round(weights / np.abs(weights).max(axis=0) * 127).astype(np.int64)
    assert (pairwise_16_bit(activations, with_8_bits) != activations @ with_8_bits).any(), "which the limit prevents"


@pytest.fixture
def uneven_network() -> onnx.ModelProto:
    """Two layers, of which rounding hurts the second far more: one of its weights hides all others of a channel."""
    random = np.random.default_rng(7)
    table, first, second = (random.normal(size=size).astype(np.float32) for size in ((50, 16), (16, 16), (16, 4)))
    second[0] = 300.0
    first[:, 0] /= 1000
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"], name="gather"),
        helper.make_node("MatMul", ["x", "first"], ["a"], name="one"),
        helper.make_node("MatMul", ["a", "second"], ["scores"], name="two"),
    ]
    graph = helper.make_graph(
        nodes,
        "uneven",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["rows", "tokens"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["rows", "tokens", 4])],
        [numpy_helper.from_array(one, name) for name, one in (("table", table), ("first", first), ("second", second))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_the_product_that_suffers_most_from_rounding_is_ranked_first_and_can_stay_in_fp32(
    uneven_network: onnx.ModelProto, tmp_path: Path
) -> None:
    assert rank_products(uneven_network, ROWS) == ["two", "one"]
    errors = {}
    for keep in ("one", "two"):
        round_weights(uneven_network, tmp_path / keep, keep=[keep])
        errors[keep] = np.abs(scores(tmp_path / keep) - scores(uneven_network)).mean()
    assert errors["two"] < errors["one"] / 2
